/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A plan as one block of bytes, and back. Decoding trusts nothing: every count, length, enum and slot is checked. */
#include "base/buf.h"
#include "plan/plan.h"

#define PLAN_BYTES_MAX (8u << 20)

/* Appends to a buffer whose maximum should be PLAN_BYTES_MAX. */
int plan_encode(const struct plan *plan, struct buf *out, struct err *err);
/* The result owns a copy of the block, and its texts point into it. -EBADMSG for anything that plan_encode cannot have
 * written. */
int plan_decode(struct str bytes, struct plan **ret, struct err *err);
