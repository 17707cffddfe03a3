/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a refused client is told: one line for the agent that reads it. That policy refused it, by which rule, that
 * trying again will not help (or when it may), and how a person can allow it.
 */
#include "base/buf.h"
#include "policy/snapshot.h"

#define REFUSAL_TEXT_MAX 2048

/* Appends the text, without a line end. `error` as in struct gate_call, 0 when there is none. */
int refusal_text(struct buf *out, const struct snapshot *snapshot, const struct authority *target,
                 const struct verdict *verdict, int error, const char *why);
/* For a request that was cut off: its beginning has been sent. */
int refusal_rest_text(struct buf *out, const struct authority *target, const char *why);
/* The HTTP status for it: 403, 429, 503, 502 or 504, ... */
unsigned refusal_status(const struct verdict *verdict, int error);
