/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/emit.h"
#include "policy/policy.h"

/* Comment lines after the policy's own text; nothing without credentials. */
int show_mappings_text(struct buf *out, const struct policy *policy);
/* The member "mappings" of the object that is open. */
void show_mappings_json(struct emit *json, const struct policy *policy);
