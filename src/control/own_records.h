/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What Bailey keeps about a run is not for the program that it is about: neither to write nor to read. */
#include "plan/build.h"

/* The path of this run's audit, absolute; NULL if `id` is NULL, for a preview of the plan. Refuses a file that the
 * sandbox could write to. Adds the paths to be hidden to the host's paths. */
int own_records(const struct policy *policy, const struct path_rules *rules, const char *id, struct plan_host *host,
                char **ret_path, struct err *err);
