/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the rows and records say what a policy owns, so this stands above them and policy.c below. */
#include "policy/apply.h"
#include "policy/judge/records.h"
#include "policy/policy.h"

#include <stdlib.h>

void home_seed_done(struct home_seed *seed) {
        free(seed->path);
        free(seed->content);
        free(seed->origin);
}

void policy_free(struct policy *policy) {
        if (!policy)
                return;

        policy_rows_done(policy);
        policy_records_done(policy);

        for (size_t i = 0; i < policy->network.mirrors.n; i++) {
                free(policy->network.mirrors.p[i].pattern);
                free(policy->network.mirrors.p[i].origin);
        }

        vec_done(&policy->network.mirrors);
        for (size_t i = 0; i < policy->home_seeds.n; i++)
                home_seed_done(&policy->home_seeds.p[i]);

        vec_done(&policy->home_seeds);
        free(policy->workspace);
        free(policy->home);
        free(policy->home_inside);
        origin_texts_done(&policy->filesystem.moved);
        origin_texts_done(&policy->filesystem.hidden_homes);
        free(policy->file);
        free(policy);
}

void policy_freep(struct policy **policy) {
        policy_free(*policy);
}
