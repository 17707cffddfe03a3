/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Denials of a run, from the system log. `log` runs in the supervisor: it refuses to run inside a sandbox. The kernel
 * drops and merges reports, so the result is a lower bound.
 */
#include "sandbox/darwin/darwin_tool.h"
#include "sandbox/darwin/violation.h"

struct monitor {
        pid_t pid; /* 0: none */
        int fd;
        struct buf rest; /* a line that has not ended yet */
        char tag[80];
        bool skipping; /* the rest of a line that was too long */
        size_t dropped;
};
#define MONITOR_NONE ((struct monitor){ .fd = -1 })

typedef void monitor_found(void *context, const struct violation *violation);

/* Before the command starts. Waits until the log confirms its filter, at most `ready_ms`; after that it may still be
 * starting, and early denials may be missing. -ETIMEDOUT, -EPROTO: there is no monitor, and nothing is left running. */
int monitor_start(struct monitor *monitor, const struct tool *tool, const char *tag, unsigned ready_ms,
                  struct err *err);
/* Takes what is there, without waiting. False when the log has ended. */
bool monitor_take(struct monitor *monitor, monitor_found *found, void *context);
/* A last look for `flush_ms`, then it ends. */
void monitor_stop(struct monitor *monitor, unsigned flush_ms, monitor_found *found, void *context);
