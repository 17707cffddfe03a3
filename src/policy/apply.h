/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From a row of policy/options.h and a text to a field of struct policy: which field, how it is checked beyond its
 * type, and whether the value would grant more than the policy grants so far.
 */
#include "policy/policy.h"

/* text has passed option_check(). Relative paths are taken from `base`. Lists grow, single values are replaced.
 * origin NULL: the built-in default. */
int policy_apply(struct policy *policy, enum policy_row row, struct str text, const char *origin, const char *base,
                 struct err *err);
/* The part of policy_apply() that looks at one value by itself: what can be wrong with it beyond its type. */
int policy_check_value(enum policy_row row, struct str text, struct err *err);
/* The reason of the last entry of network.deny. */
int policy_set_reason(struct policy *policy, struct str reason, struct err *err);
/* Called before the values of a list from one file: a row that replaces instead of growing starts anew. */
void policy_apply_start(struct policy *policy, enum policy_row row);
/* A row whose list replaces the built-in one, and for which null in a file means the built-in one. */
bool policy_row_replaces(enum policy_row row);
void policy_apply_null(struct policy *policy, enum policy_row row);

/* Would this value give more than the policy gives now? By the trust column of the row. */
bool policy_widens(const struct policy *policy, enum policy_row row, struct str text);

/* The value as people read it, for a row that is one value; NULL when it is not set. Heap text in *ret. */
int policy_row_text(const struct policy *policy, enum policy_row row, char **ret);
/* The list of a row that repeats, or NULL. */
const origin_texts *policy_row_list(const struct policy *policy, enum policy_row row);

/* Frees what the rows own. */
void policy_rows_done(struct policy *policy);
