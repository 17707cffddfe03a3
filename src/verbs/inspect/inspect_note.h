/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is still decided behind a verdict about a host: by what a GraphQL document asks for, and about a login by ssh.
 */
#include "policy/policy.h"
#include "verbs/inspect/inspect.h"

/* Adds a line for each to ret->notes. -ENOMEM is the only failure. */
int inspect_notes(const struct policy *policy, const struct snapshot *snapshot, const struct authority *target,
                  const struct inspect_question *question, struct inspect_verdict *ret);
