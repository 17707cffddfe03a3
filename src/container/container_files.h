/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The policy's file rules for a container, as mounts that the engine makes. See container_files.c. */
#include "plan/build.h"
#include "roles/vault_env.h"

struct container_files {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct plan_host *host;
        const char *empty_directory, *empty_file; /* what is seen where something is hidden */
};

/* Refuses what mounts cannot hold; where the policy accepts less (--allow-degraded), it is a note of the plan. Guards
 * of the plan are to be swept when nothing of the container lives. Arguments for `create` are added. */
int container_files(const struct container_files *files, struct plan *plan, text_list *args, struct err *err);
