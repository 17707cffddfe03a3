/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/start.h"

#include "base/paths/path.h"

const char *plan_start_wanted(const struct policy *policy, const struct plan_host *host) {
        if (policy->guest)
                return policy->home_inside;
        if (!host->cwd || !policy->workspace)
                return host->cwd ? host->cwd : policy->workspace;

        if (host->cwd_is_asked || path_is_within(host->cwd, policy->workspace))
                return host->cwd;

        return policy->workspace;
}

/* The private directory that hides the path, or NULL. */
static const char *private_around(const char *path) {
        for (const char *const *dir = plan_private_dirs; *dir; dir++)
                if (path_is_within(path, *dir))
                        return *dir;
        return NULL;
}

/* The deepest rule that denies a directory around the path, or NULL. */
static const struct plan_path *denial_around(const struct plan_host *host, const char *path) {
        const struct plan_path *found = NULL;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *rule = &host->paths.p[i];

                if (rule->access != PATH_DENIED || rule->type == PLAN_PATH_MISSING || !path_is_within(path, rule->path))
                        continue;
                if (!found || strlen(rule->path) > strlen(found->path))
                        found = rule;
        }

        return found;
}

int plan_start_refused(const struct policy *policy, const struct plan_host *host, struct err *err) {
        const char *wanted = plan_start_wanted(policy, host);

        if (!wanted)
                return err_set(err, ENOENT, "the command has no directory to start in: the current one is gone");

        const struct plan_path *denial = denial_around(host, wanted);
        if (denial)
                return err_set(err, EACCES,
                               "the command cannot start in %s: the policy denies it (%s). Start it from another "
                               "directory, or name one with --workspace",
                               wanted, denial->origin);

        const char *hidden = private_around(wanted);
        if (hidden)
                return err_set(err, EACCES,
                               "the command cannot start in %s: the sandbox has a %s of its own. Start it from another "
                               "directory, make this one the workspace with --workspace, or grant it with --read",
                               wanted, hidden);

        return err_set(err, EACCES,
                       "the command cannot start in %s: the sandbox does not show it. Start it from another directory, "
                       "make this one the workspace with --workspace, or grant it with --read",
                       wanted);
}

int plan_start(struct plan *plan, const struct plan_request *request, bool visible, struct err *err) {
        const char *wanted = plan_start_wanted(request->policy, request->host);

        if (!wanted || !visible)
                return plan_start_refused(request->policy, request->host, err);

        plan->cwd = plan_copy(plan, str_of(wanted));
        if (!plan->cwd)
                return -ENOMEM;

        return 0;
}
