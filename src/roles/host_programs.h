/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Programs of the host that run for a sandbox: ssh and gpg. The gateway judges the request and relays the bytes; this
 * starts, watches and ends the programs. The gateway numbers each of them.
 *
 * They end with this process. They have no terminal, only their three descriptors, and run in the root directory.
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdint.h>
#include <sys/types.h>

enum { HOST_PROGRAMS_MAX = 128 };

struct host_program {
        uint64_t id;
        pid_t pid;
        int pidfd;
};

struct host_programs {
        int epoll; /* readable when one has ended; -1: none was ever started */
        VEC(struct host_program) running;
};
#define HOST_PROGRAMS_NONE ((struct host_programs){ .epoll = -1 })

/* stdio and errors are the other ends, for the gateway: sockets, the caller's. */
int host_programs_start(struct host_programs *programs, uint64_t id, const char *program, char *const *argv,
                        char *const *environment, int *ret_stdio, int *ret_errors, struct err *err);
/* Ends it if it still runs; an id that is unknown is no error. */
void host_programs_end(struct host_programs *programs, uint64_t id);
/* Tells of each that has ended: its exit status, or 128 and the signal. */
typedef void host_program_ended_fn(void *arg, uint64_t id, int status);
void host_programs_reap(struct host_programs *programs, host_program_ended_fn *ended, void *arg);
/* All of them, waited for. */
void host_programs_end_all(struct host_programs *programs);
void host_programs_done(struct host_programs *programs);
