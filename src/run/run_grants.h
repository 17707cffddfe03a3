/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Paths that a person opens in a sandbox that runs ("read /srv/data", "write /home/ann/notes.md"), until it ends. This
 * allows less than a launch can grant, since the survey of the launch is over:
 *
 *   - nothing that a rule denies or protects, and no directory that holds such a thing,
 *   - for writing files alone: in a directory, names that must be protected may lie or come,
 *   - only where Landlock, whose rules are fixed, leaves it: for reading nearly everywhere, for writing below the
 *     sandbox's own home and other places that it may write.
 *
 * Other paths can be remembered for the next start (control/live_access.c).
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>

struct grant;
struct run;

struct run_grant {
        char *path;
        int mount; /* inside; its path there may have changed */
        bool write, directory, made;
};
struct run_grants {
        VEC(struct run_grant) list;
};

/* live_parts.grant and .revoke: `what` is "read /PATH" or "write /PATH". -EACCES: never; -EOPNOTSUPP: not now. */
int run_grant_path(void *run, const char *what, struct err *err);
/* The first half of it: what is at the path on the host, judged; its path is that of `what`. And the second. */
int run_grant_judge(const struct run *run, const char *what, struct grant *ret, struct err *err);
int run_grant_mount(struct run *run, const char *what, const struct grant *grant, struct err *err);
/* Whether this, or a directory above it, was opened. */
bool run_grants_cover(const struct run *run, const char *what);
int run_revoke_path(void *run, const char *what, struct err *err);
/* When nothing of the sandbox lives: what was made to mount on goes away. */
void run_grants_done(struct run *run);
