/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Git's configuration in a run: a copy for the sandbox, and what comes back of it (kept/git_copies.h). */
#include "base/err.h"
#include "base/str.h"

struct run;

/* Before the plan is built. Nothing where no broker judges changes, or an overlay takes them. */
int run_git_copy(struct run *run, struct err *err);
/* When nothing of the sandbox lives any more. */
void run_git_end(struct run *run);
/* What guards tell of files of git's (guards_left_out). */
void run_git_left_out(const char *path, size_t lines, struct str line, void *context);
