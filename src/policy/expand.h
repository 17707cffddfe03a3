/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Expands the entries of an allow or deny list to plain patterns: a group becomes its hosts and, in allow lists, the
 * mirrors of the user's own settings; a list file becomes its lines. The origin of each pattern records this.
 */
#include "policy/policy.h"

typedef int expand_function(void *context, struct str pattern, struct str origin, struct err *e);

/* Calls back for every pattern that the entry stands for; stops at the first failure. */
int expand_entry(const struct policy *policy, const struct origin_text *entry, bool mirrors, expand_function *expand,
                 void *context, struct err *err);
/* Every line of a list file that is neither empty nor a comment, with "file:line" as origin. */
int expand_file(const struct pattern_file *file, expand_function *expand, void *context, struct err *err);
