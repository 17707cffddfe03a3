/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Paths that a person opens in a sandbox that runs ("read /srv/data", "write /home/ann/notes.md"), until it ends. What
 * may be opened so is less than what a launch can grant, since the looks that a launch takes are over:
 *
 *   - nothing that a rule denies or protects, and no directory that holds such a thing,
 *   - for writing files alone: in a directory, names that must be protected may lie or come,
 *   - only where Landlock, whose rules are fixed, leaves it: for reading nearly everywhere, for writing below the
 *     sandbox's own home and other places that it may write.
 *
 * What cannot be opened now can be remembered for the next start (control/live_access.c).
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>

struct run;

struct run_grant {
        char *path;
        bool write, directory, made;
};
struct run_grants {
        VEC(struct run_grant) list;
};

/* live_parts.grant and .revoke: `what` is "read /PATH" or "write /PATH". -EACCES: never; -EOPNOTSUPP: not now. */
int run_grant_path(void *run, const char *what, struct err *err);
int run_revoke_path(void *run, const char *what, struct err *err);
/* When nothing of the sandbox lives: what was made to mount on goes away. */
void run_grants_done(struct run *run);
