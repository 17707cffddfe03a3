/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The message after a reload: the difference between two policies, as far as it concerns a gateway. */
#include "base/buf.h"
#include "policy/policy.h"

/* One line for each change; none when there is none. */
int gateway_changes(const struct policy *before, const struct policy *after, struct buf *out);
