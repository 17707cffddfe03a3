/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A rebase, cherry-pick or revert that a sandbox leaves unfinished. When a person continues it, git runs the `exec`
 * lines of its list, and the merge program that its notes name (git_unfinished.h); the sandbox writes both. So what was
 * written during the run, whoever wrote it, loses such lines or is moved away; the rest can go on. What is taken away
 * is kept (`bailey kept`). Notes of the host's that the sandbox did not touch stay as they are.
 */
#include "kept/guard_registry.h"

/* Where the sandbox may have written, in the repositories that were there when the run began, in the ones of *now, and
 * in those that were noted as they were made. Says by itself what it could not look at. */
void git_rebase_end(struct guards *guards, const struct path_rules *rules, const struct plan_host *before,
                    const struct plan_host *now);
