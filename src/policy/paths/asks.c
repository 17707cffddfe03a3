/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/asks.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

const struct origin_text *asks_covering(const struct policy *policy, const char *path) {
        for (size_t i = 0; i < policy->filesystem.ask.n; i++)
                if (path_is_within(path, policy->filesystem.ask.p[i].text))
                        return &policy->filesystem.ask.p[i];
        return NULL;
}

int asks_compile_real(struct policy *policy, struct path_rules **ret, struct err *err) {
        char *before = policy->filesystem.home;
        const bool guest = policy->guest; /* a guest's home is its own, whatever is written */
        int r;

        policy->filesystem.home = NULL;
        policy->guest = false;
        r = path_rules_compile(policy, ret, err);
        policy->filesystem.home = before;
        policy->guest = guest;
        return r;
}

int asks_about_reading(struct policy *policy, const struct path_rules *rules, const char *path, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *real = NULL;
        const struct path_rule *rule = NULL;
        int r;

        if (!asks_covering(policy, path) || path_rules_host_access(rules, path, &rule) != PATH_DENIED ||
            (rule && !rule->own))
                return 0;

        r = asks_compile_real(policy, &real, err);
        if (r < 0)
                return r;

        return path_rules_host_access(real, path, &rule) != PATH_DENIED || !rule;
}
