/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A process of ours: `bailey supervise` with its link, or a command itself where there is no sandbox. Started without
 * fork(), so that threads, handlers and buffers of the program do not matter; with signals as at birth, in a session of
 * its own (the terminal's signals are the program's), and with nothing open but what is given here.
 */
#include "bailey/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
        pid_t pid;    /* 0: none */
        int pidfd;    /* -1 where the kernel has none */
        int link;     /* our end, does not block; -1: none */
        int out, err; /* our ends of its output, do not block; -1: closed, or not captured */
};
#define CHILD_NONE ((struct child){ .pidfd = -1, .link = -1, .out = -1, .err = -1 })

struct child_plan {
        const char *path;
        char *const *argv, *const *envp;
        const char *directory; /* NULL: the program's */
        const char *block;     /* for SUPERVISE_FD_REQUEST; NULL: no link, a command itself */
        int input;             /* -1: /dev/null */
        bool capture;          /* its output goes to us, else to /dev/null */
        bool search;           /* the path is a name, found in PATH */
};

/* BAILEY_E_SYSTEM; *ret_errno (optional) says which error of the start itself it was. */
int child_start(const struct child_plan *plan, struct child *ret, int *ret_errno, struct bailey_error *error);
/* Ends it at once, with its session where it is a command itself. */
void child_kill(struct child *child, bool whole_session);
/* Waits until it is gone, for at most this long; then kills it and waits. The wait status, or -1 when somebody else
 * took it (a handler that reaps everything). */
int child_wait(struct child *child, unsigned milliseconds);
/* Closes what is open. */
void child_done(struct child *child);
