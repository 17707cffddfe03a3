/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What Bailey keeps about a run is not for the program that it is about: neither to write nor to read. */
#include "plan/build.h"

/* Where the audit of this run goes, as an absolute path; NULL when `id` is, which asks only for a look at the plan.
 * Refuses a file that the sandbox could write to. What is to be hidden is added to the host's paths. */
int own_records(const struct policy *policy, const struct path_rules *rules, const char *id, struct plan_host *host,
                char **ret_path, struct err *err);
