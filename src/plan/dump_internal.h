/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the plan as text (dump.c) and as JSON (dump_json.c) have in common. */
#include "plan/plan.h"

struct dump_name {
        uint64_t value;
        const char *name; /* NULL ends the list */
};
extern const struct dump_name dump_namespaces[], dump_attributes[];

const char *dump_limit_name(uint32_t resource);
bool dump_is_captured(const struct plan *plan);
/* Of the broker's rules, those that it enforces itself. */
bool dump_is_judged(const struct plan_path_rule *rule);
