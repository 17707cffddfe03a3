/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether calls that change files are judged (sandbox/linux/broker/broker.h): only if a writable place contains
 * something that must not change, or must not appear; and with programs that stand for those of the host. Those are
 * mounted read-only, but an attempt to change one must be on record.
 */
#include "base/paths/path.h"
#include "plan/build.h"

static int add_opening(struct plan *plan, const char *path) {
        const char *copy = plan_copy(plan, str_of(path));

        if (!copy)
                return -ENOMEM;

        return vec_push(&plan->openings, copy);
}

/* A grant inside a refusal. */
static bool is_opening(const struct plan *plan, const struct plan_path *path) {
        if (!path->grants || path->access != PATH_WRITE || path->type == PLAN_PATH_MISSING)
                return false;
        for (size_t i = 0; i < plan->guards.n; i++)
                if (path_is_within(path->path, plan->guards.p[i].path))
                        return true;
        return false;
}

static bool guards_within(const struct plan *plan, const char *dir) {
        for (size_t i = 0; i < plan->guards.n; i++)
                if (path_is_within(plan->guards.p[i].path, dir))
                        return true;
        return false;
}

/* With an overlay nothing that is written in the workspace reaches the host. */
static bool in_overlay(const struct plan_request *request, const char *path) {
        return request->host->overlay_upper && request->policy->workspace &&
               path_is_within(path, request->policy->workspace);
}

/* Protected names with a pattern: no guard can represent one that does not exist yet. Grants by name are added too,
 * since they are more specific. If a policy has globs, the broker has all rules already. */
static int add_patterns(struct plan *plan, const struct plan_request *request) {
        if (plan->flags & PLAN_BROKER)
                return 0;

        for (size_t i = 0; i < path_rules_count(request->rules); i++) {
                const struct path_rule *rule = path_rules_at(request->rules, i);
                bool pattern =
                    rule->is_glob && rule->protected && !rule->anywhere && !in_overlay(request, rule->pattern);
                bool grant = rule->grants && !rule->decides_read;

                if ((pattern || grant) && plan_add_path_rule(plan, rule) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int add_copies(struct plan *plan, const struct plan_host *host) {
        for (size_t i = 0; i < host->copies.n; i++) {
                const struct plan_host_copy *from = &host->copies.p[i];
                struct plan_copy_of copy = { .path = plan_copy(plan, str_of(from->path)),
                                             .copy_dev = from->copy_dev,
                                             .copy_ino = from->copy_ino,
                                             .real_dev = from->real_dev,
                                             .real_ino = from->real_ino };

                if (!copy.path || vec_push(&plan->copies, copy) < 0)
                        return -ENOMEM;
        }

        return 0;
}

int plan_changes(struct plan *plan, const struct plan_request *request) {
        const struct plan_host *host = request->host;

        if (plan->flags & PLAN_DEGRADED)
                return 0;
        if (plan->guards.n == 0 && host->copies.n == 0 && !plan_has_programs(plan))
                return 0;
        if (add_copies(plan, host) < 0)
                return -ENOMEM;

        plan->flags |= PLAN_WRITES;
        if (plan->landlock.abi && !guards_within(plan, "/dev") && !guards_within(plan, "/proc"))
                plan->flags |= PLAN_NATIVE;

        for (size_t i = 0; i < host->paths.n; i++)
                if (is_opening(plan, &host->paths.p[i]) && add_opening(plan, host->paths.p[i].path) < 0)
                        return -ENOMEM;

        return add_patterns(plan, request);
}
