/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the survey. */
#include "sandbox/sandbox.h"

/* One more path for the plan; the texts are copied. */
int survey_add(struct plan_host *h, struct plan_path path, struct err *e);
/* The parts of a repository that a commit in this worktree or submodule writes to, where the workspace is one. */
int survey_git(const struct policy *policy, const struct path_rules *rules, struct plan_host *h, struct err *e);
/* Whether a link on the way from this path to its real end lies in the workspace or in another place that the rules let
 * be written, or the way does not lead there (any more). */
bool survey_link_planted(const struct path_rules *rules, const char *workspace, const char *path, const char *real);
