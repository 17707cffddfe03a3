/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a person is told after a reload: the difference between two policies, as far as a gateway is concerned. */
#include "base/buf.h"
#include "policy/policy.h"

/* One line for each change; none when there is none. */
int gateway_changes(const struct policy *before, const struct policy *after, struct buf *out);
