/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Programs of the host, as a worker's sessions see them: asked for by message, started by the supervisor, whose
 * descriptors come back here. A session that ends first takes its call back, and the program ends with it.
 */
#include "gateway/worker.h"

struct program_call {
        struct link link; /* in worker.programs */
        struct worker *worker;
        uint64_t id; /* 0: nothing is under way */
        /* A descriptor, which is the callee's; the end, or why there was no beginning. Neither is called from inside
         * program_open(), nor after program_close(). */
        void (*on_fd)(struct program_call *call, enum ipc_program_fd which, int fd);
        void (*on_status)(struct program_call *call, int status, const char *why);
};

/* m: an IPC_SSH or IPC_TOOL; its id is filled in. -ENOMEM. */
int program_open(struct program_call *call, struct ipc_message *message);
/* Harmless when nothing is under way. */
void program_close(struct program_call *call);

/* From the control thread: a message of the supervisor about a program. Takes the descriptor. */
void program_heard(struct gateway *gateway, const struct ipc_message *message, int fd);
