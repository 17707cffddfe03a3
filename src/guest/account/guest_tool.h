/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A program of the system that root needs for account guests: useradd, userdel, usermod, nft. By the system's own PATH,
 * with nothing of the caller's environment. */
#include "base/buf.h"
#include "base/err.h"

struct guest_tool {
        char *const *argv;
        const char *package; /* that has it */
        struct str input;    /* n == 0: none */
        struct buf *output;  /* NULL: nobody reads it */
        bool quiet;          /* what it says on standard error is not shown */
};

/* -ENOENT: it is not there; -EIO: it failed. */
int guest_tool_run(const struct guest_tool *tool, struct err *err);
