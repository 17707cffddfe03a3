/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Grants that are well formed and open nothing. Somebody wrote them down and believes that they count. */
#include "policy/policy.h"

/* say() gets one line for each: where it stands, and what would count instead. */
void policy_idle_grants(const struct policy *policy, void (*say)(void *arg, const char *text), void *arg);
