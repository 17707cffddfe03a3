/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The policy's file rules for a container, as mounts that the engine makes. See container_files.c. */
#include "container/container_seen.h"
#include "plan/build.h"
#include "roles/vault_env.h"

struct container_files {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct plan_host *host;
        const char *empty_directory, *empty_file; /* shown in place of something hidden */
};

/* Refuses rules that mounts cannot enforce; if the policy accepts less (--allow-degraded), they become notes of the
 * plan. The caller sweeps the plan's guards when the container is gone. Adds arguments for `create`, and to `seen` what
 * they mount. */
int container_files(const struct container_files *files, struct plan *plan, text_list *args, container_seen *seen,
                    struct err *err);
