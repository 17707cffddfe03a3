/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* On the first run without any policy, tells the user which rules apply and how to change them. */
#include "kept/home.h"
#include "policy/policy.h"

/* On a terminal only, and once for a user: an empty file in the state directory ("introduced") remembers it. */
void run_introduce(const struct policy *policy);
/* True once for an agent in a home that is kept, or once for a user without such a home. An empty file remembers it
 * ("hinted-AGENT"), beside the home's files, where no sandbox can write. */
bool run_introduce_agent(const struct home *home, const char *agent);
