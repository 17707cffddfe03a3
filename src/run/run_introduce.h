/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who runs something for the first time, without any policy, is told what holds and how to change it. */
#include "policy/policy.h"

/* On a terminal only, and once for a user: an empty file in the state directory ("introduced") remembers it. */
void run_introduce(const struct policy *policy);
