/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages for when a limit ended something, as far as that can be known: the program itself says "Killed" or less. */
#include "base/buf.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"

struct run_limits {
        const struct policy *policy;
        const struct plan *plan;
        struct sandbox_met met; /* looked up while the group is there */
        int status;             /* of the command */
};

/* Whole lines for people; nothing where no limit was met. */
int run_limits_text(const struct run_limits *limits, struct buf *out);
