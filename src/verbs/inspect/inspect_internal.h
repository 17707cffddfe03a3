/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the questions about hosts, repositories and paths share. */
#include "policy/judge/verdict.h"
#include "policy/policy.h"
#include "verbs/inspect/inspect.h"

struct inspector {
        struct policy *policy;
        void *bytes; /* of the snapshot */
        struct snapshot *snapshot;
        struct path_rules *paths;
        struct sh_rules *commands;
};

const char *inspect_decision(enum decision decision); /* "allow", "ask", "deny" */
/* Fills in what the verdict found; -ENOMEM is the only failure. */
int inspect_describe(const struct inspector *inspector, const struct verdict *verdict,
                     const struct authority *authority, struct inspect_verdict *ret);
