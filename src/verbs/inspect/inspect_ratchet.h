/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What ratchets (policy/judge/ratchet.h) have to do with a host or a path. */
#include "policy/policy.h"
#include "verbs/inspect/inspect.h"

/* Fills in ret->ratchets, a line for each. For a host, `target` is what was asked about; NULL for a path. -ENOMEM. */
int inspect_ratchets(struct policy *policy, const struct authority *target, struct inspect_verdict *ret);
