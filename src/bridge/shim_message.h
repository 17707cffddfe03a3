/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What bailey-shim says to the supervisor and hears from it. Each message is one packet of a SOCK_SEQPACKET socket; the
 * other side is hostile, so a packet is exactly what is written here or nothing.
 *
 * A call: struct shim_head, then `n` texts, each with a NUL at its end, and nothing behind them: the directory, the
 * tool's name, its words. Three descriptors come with it: standard input, output and error of the tool.
 * After it: struct shim_word, SHIM_SIGNAL, for each signal that the shim got.
 * Back: struct shim_word. Every call ends with SHIM_INSIDE, SHIM_REFUSED, SHIM_EXITED or SHIM_KILLED.
 */
#include "base/str.h"

#include <stdint.h>

enum { SHIM_VERSION = 1, SHIM_BYTES_MAX = 98304, SHIM_TEXTS_MAX = 258, SHIM_TEXT_BYTES = 1024, SHIM_FDS = 3 };
#define SHIM_MAGIC UINT32_C(0x31534c42) /* "BLS1" */
#define SHIM_DIRECTORY "/run/bailey/bin"
#define SHIM_SOCKET "/run/bailey/bridge"

struct shim_head {
        uint32_t magic;
        uint16_t version, n; /* n: texts */
        uint32_t bytes;      /* of the texts together */
};

enum shim_kind {
        SHIM_SIGNAL = 1, /* number: of the signal */
        SHIM_INSIDE,     /* the program inside does it */
        SHIM_REFUSED,    /* text: why */
        SHIM_EXITED,     /* number: the status; text: what Bailey has to say, or nothing */
        SHIM_KILLED,     /* number: the signal that ended the tool */
        SHIM_KINDS
};

struct shim_word {
        uint32_t magic;
        uint16_t version, kind;
        int32_t number;
        char text[SHIM_TEXT_BYTES]; /* terminated */
};

struct shim_call {
        struct str directory, tool;
        struct str words[SHIM_TEXTS_MAX]; /* in the bytes that were read */
        size_t n;
};

/* False: it is none. */
bool shim_call_read(struct str packet, struct shim_call *ret);
/* The number of a signal that is handed on; false: it is no such message. */
bool shim_signal_read(struct str packet, int *ret);
