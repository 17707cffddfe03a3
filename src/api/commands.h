/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The commands: part of a policy as rules of the classifier. Here both sides meet that know neither of the other. */
#include "policy/policy.h"
#include "shell/classify.h"

/* -EINVAL names the rule whose examples do not hold. */
int commands_load(const struct policy *p, struct sh_rules **ret, struct err *e);
