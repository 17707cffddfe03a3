/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Commands of the policy that run outside while the sandbox runs: those that read credentials, and approval.command.
 */
#include "base/err.h"
#include "policy/policy.h"

/* Refuses a policy whose commands name something that the sandbox may write, by any step of a link, with the words that
 * lead there: what it says would run outside. The commands run in "/", so a relative path is refused, too. Before
 * anything of it runs. */
int own_commands_check(const struct policy *policy, char *const *environment, struct err *err);
