/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one way to start another program on the host. The child gets exactly what the caller lists: standard descriptors,
 * further ones from 3 up, arguments, environment. Handlers and the signal mask are as for a program that a shell
 * starts, and nothing else that is open here is open there.
 *
 * The child shares this process's memory until it executes (vfork), so that starting costs the same however large this
 * process is.
 */
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SPAWN_FDS_MAX = 128 };

/* In the place of a descriptor. */
enum { SPAWN_NULL = -1, /* /dev/null */ SPAWN_KEEP = -2 /* ours */ };

enum spawn_flags {
        SPAWN_WITH_PARENT = 1, /* killed when the thread that started it ends, also when that dies before it begins */
        SPAWN_OWN_SESSION = 2, /* no terminal: Ctrl-C is not for it; its number is its group's too */
        SPAWN_AT_ROOT = 4,     /* in /: the workspace is the sandbox's, nothing there is to be found by chance */
        SPAWN_PRIVATE = 8,     /* umask 077 */
};

struct spawn {
        const char *program; /* a path; see spawn_find() */
        char *const *argv, *const *environment;
        int input, output, errors;
        const int *fds; /* become 3, 4, ...; they stay the caller's */
        size_t n_fds;
        unsigned flags; /* enum spawn_flags */
};

/* A program that cannot be executed is an error here; no process is left then. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid, struct err *err);

/* A program by the PATH of this environment; a name with a slash is taken as it is. Only absolute directories count:
 * nobody means to run what happens to be in the current directory. */
bool spawn_find(const char *name, char *const *environment, char ret[static PATH_MAX]);

/* The status as waitpid() has it; -1 when there is no such child. */
int spawn_wait(pid_t pid);

/* Onto another processor, for a caller that goes on working: the kernel may keep a new process in the caller's queue
 * for milliseconds while the other processors are idle. It may run everywhere again at once. */
void spawn_send_away(pid_t pid);
