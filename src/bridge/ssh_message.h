/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the program inside that stands for ssh and gpg says to the gateway, and what it hears.
 *
 * It begins with one message: 4 bytes "BSH1", a byte for the kind, a byte for the number of words, their length in two
 * bytes (the low one first), then the words, each with a NUL at its end. What follows is its standard input.
 *
 * It hears frames: a byte for the kind, three of zero, a length in four bytes (the low one first), then so many bytes.
 * The exit status is a frame of one byte and the last one.
 *
 * Words of ssh: the value of GIT_PROTOCOL ("" for none), then the arguments. Words of gpg: the arguments.
 */
#include "base/buf.h"

enum ssh_message_kind { SSH_MESSAGE_SSH = 1, SSH_MESSAGE_GPG = 2 };
enum ssh_frame_kind { SSH_FRAME_OUTPUT = 1, SSH_FRAME_ERRORS = 2, SSH_FRAME_EXIT = 3 };
enum { SSH_MESSAGE_HEAD = 8, SSH_MESSAGE_WORDS = 32, SSH_MESSAGE_TEXT_MAX = 4096, SSH_FRAME_HEAD = 8 };

struct ssh_message {
        enum ssh_message_kind kind;
        struct str words[SSH_MESSAGE_WORDS]; /* in the bytes that were read */
        size_t n;
        size_t bytes; /* of the whole message */
};

/* 1: it is whole; 0: more bytes are needed; -EBADMSG: it is none. */
int ssh_message_read(struct str bytes, struct ssh_message *ret);
void ssh_frame_head(enum ssh_frame_kind kind, size_t n, unsigned char ret[static SSH_FRAME_HEAD]);
