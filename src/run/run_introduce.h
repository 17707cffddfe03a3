/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* On the first run without any policy, tells the user which rules apply and how to change them. */
#include "policy/policy.h"

/* On a terminal only, and once for a user: an empty file in the state directory ("introduced") remembers it. */
void run_introduce(const struct policy *policy);
