/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include "policy/apply.h"
#include "policy/judge/records.h"

#include <stdlib.h>

const char *policy_mode_name(enum policy_mode mode) {
        return (unsigned)mode < MODES ? policy_rows[ROW_MODE].choices[mode] : "unknown";
}

void home_seed_done(struct home_seed *seed) {
        free(seed->path);
        free(seed->content);
        free(seed->origin);
}

void policy_free(struct policy *p) {
        if (!p)
                return;

        policy_rows_done(p);
        policy_records_done(p);

        for (size_t i = 0; i < p->network.mirrors.n; i++) {
                free(p->network.mirrors.p[i].pattern);
                free(p->network.mirrors.p[i].origin);
        }

        vec_done(&p->network.mirrors);
        for (size_t i = 0; i < p->home_seeds.n; i++)
                home_seed_done(&p->home_seeds.p[i]);

        vec_done(&p->home_seeds);
        free(p->workspace);
        free(p->home);
        free(p->home_inside);
        origin_texts_done(&p->filesystem.moved);
        origin_texts_done(&p->filesystem.hidden_homes);
        free(p->file);
        free(p);
}

void policy_freep(struct policy **p) {
        policy_free(*p);
}
