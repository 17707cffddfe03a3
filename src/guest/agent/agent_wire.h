/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a command outside and the agent inside say to each other, over a Unix socket that keeps messages whole. A
 * request is one message: what to do, and the texts that it needs, each ended by a NUL. Replies are short. The agent
 * runs among hostile processes: who is outside takes every reply for hostile, and none of them makes it do anything.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum { AGENT_REQUEST_MAX = 128 << 10, AGENT_WORDS_MAX = 4096, AGENT_TEXT_MAX = 256 };

enum agent_do {
        AGENT_PING, /* PONG follows; value: how many sessions there are */
        AGENT_EXEC, /* descriptors: input, output, errors; none with AGENT_TERMINAL */
        AGENT_STOP, /* ends everything, the agent last */
        AGENT_DOS
};

enum { AGENT_TERMINAL = 1, AGENT_LOGIN = 2 /* the first word is shown with '-' before it: a login shell */ };

/* The texts lie in the message. */
struct agent_request {
        uint32_t what, flags;
        uint16_t rows, columns;        /* of the terminal */
        const char *directory;         /* "": the home */
        VEC(const char *) argv;        /* NULL-terminated, the NULL not counted */
        VEC(const char *) environment; /* NAME=VALUE, laid over the agent's own */
};
void agent_request_done(struct agent_request *request);

int agent_request_write(const struct agent_request *request, struct buf *ret);
/* -EBADMSG: it is no request. `bytes` must stay as long as *ret is used. */
int agent_request_parse(struct str bytes, struct agent_request *ret);

enum agent_reply_kind {
        AGENT_PONG,
        AGENT_STARTED, /* descriptor: the terminal's, with AGENT_TERMINAL */
        AGENT_EXITED,  /* value: as waitpid() has it */
        AGENT_FAILED,  /* value: errno; text: why */
        AGENT_REPLIES
};

struct agent_reply {
        uint32_t kind;
        int32_t value;
        char text[AGENT_TEXT_MAX];
};

/* From outside, while a command runs: a signal for its process group. */
struct agent_signal {
        int32_t number;
};
