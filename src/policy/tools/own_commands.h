/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Commands of the policy that run outside while the sandbox runs: those that read credentials, and approval.command.
 */
#include "base/err.h"
#include "policy/policy.h"

/* Refuses a policy if a command names a path that the sandbox may write, through any link on the way; the error quotes
 * the words. Such a path would run outside. The commands run in "/", so relative paths are refused too. Called before
 * any command runs. */
int own_commands_check(const struct policy *policy, char *const *environment, struct err *err);
