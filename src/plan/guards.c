/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protected paths of a plan: closed paths that the survey found inside writable places. A person's rules count as
 * much as built-in ones: a path that may not be written must not be made either.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "plan/build.h"

#include <stdlib.h>

static const uint8_t kinds[] = {
        [PLAN_PATH_MISSING] = PLAN_GUARD_MISSING,
        [PLAN_PATH_DIR] = PLAN_GUARD_DIR,
        [PLAN_PATH_FILE] = PLAN_GUARD_FILE,
        [PLAN_PATH_LINK] = PLAN_GUARD_LINK,
};

/* Of the hundreds of paths a few are writable directories: they are looked for once. */
typedef VEC(const char *) writable_roots;

static void writable_roots_done(writable_roots *roots) {
        vec_done(roots);
}

static int find_roots(const struct plan_host *host, writable_roots *ret) {
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                bool writable = path->grants && path->access == PATH_WRITE && path->type == PLAN_PATH_DIR;

                if (writable && vec_push(ret, path->path) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* The outermost writable directory around the path, or NULL. */
static const char *root_of(const writable_roots *roots, const char *path) {
        const char *found = NULL;

        for (size_t i = 0; i < roots->n; i++) {
                const char *root = roots->p[i];

                if (path_is_within(path, root) && (!found || strlen(root) < strlen(found)))
                        found = root;
        }

        return found;
}

static int add_guard(struct plan *plan, const struct plan_path *path, const char *root) {
        struct plan_guard guard = {
                .path = plan_copy(plan, str_of(path->path)),
                .kind = kinds[path->type],
                .hidden = path->access == PATH_DENIED,
                .link = path->link ? plan_copy(plan, str_of(path->link)) : NULL,
                .why = plan_copy(plan, str_of(text_or(path->origin, ""))),
                .root = plan_copy(plan, str_of(root)),
        };

        if (!guard.path || !guard.why || !guard.root || (path->link && !guard.link))
                return -ENOMEM;

        return vec_push(&plan->guards, guard);
}

static int by_path(const void *a, const void *b) {
        const struct plan_guard *left = a, *right = b;
        int order = strcmp(left->path, right->path);

        return order ? order : (int)left->kind - (int)right->kind;
}

/* Two rules may speak of one path. */
static void drop_doubles(struct plan *plan) {
        size_t kept = 0;

        for (size_t i = 0; i < plan->guards.n; i++) {
                struct plan_guard *last = kept ? &plan->guards.p[kept - 1] : NULL;

                if (last && strcmp(last->path, plan->guards.p[i].path) == 0 && last->kind == plan->guards.p[i].kind)
                        last->hidden |= plan->guards.p[i].hidden;
                else
                        plan->guards.p[kept++] = plan->guards.p[i];
        }

        plan->guards.n = kept;
}

/* A person's denied path that the broker keeps anybody inside from making: what appears there is the host's own. */
static bool held_otherwise(const struct plan *plan, const struct plan_path *path) {
        return (plan->flags & PLAN_BROKER) && path->type == PLAN_PATH_MISSING && path->access == PATH_DENIED &&
               !path->protected;
}

int plan_guards(struct plan *plan, const struct plan_host *host, const char *workspace) {
        cleanup(writable_roots_done) writable_roots roots = { 0 };

        if (find_roots(host, &roots) < 0)
                return -ENOMEM;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                const char *root = path->access == PATH_WRITE || path->grants ? NULL : root_of(&roots, path->path);
                bool in_overlay = host->overlay_upper && workspace && path_is_within(path->path, workspace);

                /* With an overlay nothing that is written in the workspace reaches the host: marks do the rest. */
                if (!root || in_overlay || strcmp(root, path->path) == 0 || held_otherwise(plan, path))
                        continue;

                int r = add_guard(plan, path, root);
                if (r < 0)
                        return r;
        }

        plan->git_incomplete = host->git_incomplete;
        if (plan->guards.n > 1)
                qsort(plan->guards.p, plan->guards.n, sizeof *plan->guards.p, by_path);

        drop_doubles(plan);
        return 0;
}
