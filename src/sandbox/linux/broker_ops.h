/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The calls that the broker performs on behalf of others, one function each. Used by broker.c alone. */
#include "sandbox/linux/broker.h"
#include "sandbox/linux/walk.h"

/* The call is answered already (a descriptor was passed, or a thread will answer). */
#define OP_ANSWERED 1
/* The kernel shall perform the call as the caller asks. Never a judgement: the caller can change what it asks for. */
#define OP_CONTINUE 2

struct held { /* one call being served */
        const struct broker *broker;
        struct tracee tracee;
        const __u64 *args;
        /* What the report says: filled as the call goes on. */
        char path[PATH_MAX];
        const char *glob; /* that refused it */
        bool stranger;    /* a socket of the host */
        bool writes;
};

struct broker_op {
        int nr;
        const char *name;
        int (*run)(struct held *h); /* 0 (the call returns 0), OP_ANSWERED, OP_CONTINUE, or a negative errno */
};
extern const struct broker_op broker_ops[];
extern const size_t broker_ops_n;
/* Calls about sockets: they may wait, and are served beside each other (broker_sockets.c). */
extern const struct broker_op broker_socket_ops[];
extern const size_t broker_socket_ops_n;

/* Answers the held call with a copy of the descriptor; OP_ANSWERED or a negative errno. */
int broker_pass_fd(const struct tracee *t, int fd, bool close_on_exec);
int broker_answer(const struct tracee *t, int result);
