/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which rows of policy/paths/home_table.h this host has, as the plan needs them. */
#include "kept/home.h"
#include "plan/build.h"
#include "policy/paths/paths.h"

struct home_rows_request {
        const struct policy *policy;
        const struct path_rules *rules;
        const char *search_path; /* $PATH: what lies in the home of it is laid into the own home too; may be NULL */
        const char *run_id;
        bool preview;  /* nothing is made */
        bool degraded; /* nothing can be mounted: programs are only opened, at their own place */
};

/* Adds to host->home.laid, and makes the places for it. An entry that cannot be laid (a link is planted in its place)
 * is reported and left out. */
int home_rows_show(struct home *home, const struct home_rows_request *request, struct plan_host *host, struct err *err);
/* What this run kept for itself, because another one wrote to the caches, goes away. */
void home_layers_remove(struct home *home, const char *run_id);
