/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A rebase, cherry-pick or revert that a sandbox leaves unfinished. When a person continues it, git runs the `exec`
 * lines of its list, and the merge program that its notes name (git_unfinished.h); the sandbox writes both. So what was
 * written during the run, whoever wrote it, loses such lines or is moved away; the rest can go on. What is taken away
 * is kept (`bailey kept`). Notes of the host's that the sandbox did not touch stay as they are. `bailey apply` leaves
 * such files out (kept/overlays.c).
 */
#include "kept/guard_registry.h"

struct slot;

/* Whether the sandbox may leave something unfinished in this repository that continues on the host. */
bool git_rebase_may_leave(const struct policy *policy, const struct path_rules *rules, const struct plan_host *host,
                          const char *gitdir);
/* Where the sandbox may have written, in the repositories that were there when the run began, in the ones of *now, and
 * in those that were noted as they were made. Says by itself what it could not look at. */
void git_rebase_end(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                    const struct plan_host *before, const struct plan_host *now);
/* The same for a run that was killed, by its slot: repositories that were there and that were noted. *guards is what
 * the slot says, and tells about what is found. */
void git_rebase_left(struct guards *guards, const struct slot *slot);
