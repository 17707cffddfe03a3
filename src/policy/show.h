/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The merged policy for people and for programs, every value with its origin. The text is a policy file again, with the
 * origins as comments. Secrets (a proxy's password, variables that are named like one) are not shown.
 */
#include "policy/policy.h"

enum policy_show_flags {
        POLICY_SHOW_EXPAND = 1,   /* groups as the patterns that they stand for, with the user's mirrors */
        POLICY_SHOW_DEFAULTS = 2, /* also what nobody set */
};

int policy_show_text(struct buf *out, const struct policy *policy, unsigned flags);
int policy_show_json(struct buf *out, const struct policy *policy, unsigned flags);
