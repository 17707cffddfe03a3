/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether calls that change files are judged (sandbox/linux/broker.h): where a writable place has something in it that
 * must stay as it is, or must not appear. Elsewhere nobody pays for it.
 */
#include "base/path.h"
#include "plan/build.h"

static int add_opening(struct plan *p, const char *path) {
        const char *copy = plan_copy(p, str_of(path));

        return copy ? vec_push(&p->openings, copy) : -ENOMEM;
}

/* A grant inside of a refusal. */
static bool is_opening(const struct plan *p, const struct plan_path *path) {
        if (!path->grants || path->access != PATH_WRITE || path->type == PLAN_PATH_MISSING)
                return false;
        for (size_t i = 0; i < p->guards.n; i++)
                if (path_is_within(path->path, p->guards.p[i].path))
                        return true;
        return false;
}

static bool guards_within(const struct plan *p, const char *dir) {
        for (size_t i = 0; i < p->guards.n; i++)
                if (path_is_within(p->guards.p[i].path, dir))
                        return true;
        return false;
}

int plan_changes(struct plan *p, const struct plan_host *host) {
        if (p->guards.n == 0 || (p->flags & PLAN_DEGRADED))
                return 0;

        p->flags |= PLAN_WRITES;
        if (p->landlock.abi && !guards_within(p, "/dev") && !guards_within(p, "/proc"))
                p->flags |= PLAN_NATIVE;
        for (size_t i = 0; i < host->paths.n; i++)
                if (is_opening(p, &host->paths.p[i]) && add_opening(p, host->paths.p[i].path) < 0)
                        return -ENOMEM;
        return 0;
}
