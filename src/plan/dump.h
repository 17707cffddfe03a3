/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A plan for people (`bailey plan`) and for programs (`--json`). Bytes of filters and batches are shown by their size.
 */
#include "base/buf.h"
#include "plan/plan.h"
#include "policy/policy.h"

int plan_dump_text(const struct plan *plan, struct buf *out);
/* policy: whose tools of the host are listed, with the calls that a person must agree to; NULL: none. */
int plan_dump_json(const struct plan *plan, const struct policy *policy, struct buf *out);
