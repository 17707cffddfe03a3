/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A program of the system, run to its end or to a limit of time: dscl and its kin are known to hang. */
#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

struct tool {
        const char *prefix;  /* before the program's path, for tests; NULL: none */
        unsigned timeout_ms; /* 0: 30 seconds */
};

enum { TOOL_OUTPUT_MAX = 256 << 10 };

/* 0 when it ended with status 0. What it printed, both streams together, is in *out; more than fits is dropped.
 * -ETIMEDOUT: it was ended, with all of its process group. -EPROTO: it failed; e has its last line. */
int tool_run(const struct tool *tool, const char *const *words, struct buf *out, struct err *err);

/* The same without waiting: *ret_fd gives what it prints. End it with tool_end(). */
int tool_start(const struct tool *tool, const char *const *words, pid_t *ret_pid, int *ret_fd, struct err *err);
/* Ends it and its process group, and waits. Its wait status. */
int tool_end(pid_t pid);
