/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A rebase that a sandbox leaves unfinished. `git rebase --continue` runs the `exec` lines of its list, outside as
 * well, and the sandbox writes that list. So a list that was written during the run loses them; the rest of the rebase
 * can go on. A list of the host's that the sandbox did not touch stays as it is.
 */
#include "plan/build.h"

/* `line` is the first one that was left out, or NULL where something else stood in the place of the list and is gone.
 */
typedef void git_rebase_report(const char *path, size_t lines, struct str line, void *context);

/* In the repositories that were there before the run, which began at this time. */
int git_rebase_end(const struct plan_host *host, uint64_t since_us, git_rebase_report *report, void *context,
                   struct err *err);
