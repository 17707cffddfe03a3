/* SPDX-License-Identifier: Apache-2.0 */
/* What other sandboxes guard in the places where this one writes is guarded here, too. */
#include "kept/guard_registry_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/paths/path.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <stdlib.h>

/* Roots that the survey opened itself are among them from here on. */
static int add_found_roots(struct guards *g, const struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                if (!path->grants || path->access != PATH_WRITE || path->type != PLAN_PATH_DIR ||
                    roots_have(path->path, (const char *const *)g->roots.p, g->roots.n))
                        continue;

                cleanup(free_ptr) char *copy = strdup(path->path);
                if (!copy || vec_push(&g->roots, copy) < 0)
                        return -ENOMEM;

                take_ptr(&copy);
        }

        return 0;
}

/* Many sandboxes in one place guard the same paths: each counts once. 1 when it is new. */
static int remember_shared(struct map *known, const struct plan_path *shared) {
        cleanup(buf_done) struct buf key = BUF(3 * PATH_MAX);
        int r = buf_printf(&key, "%d %s", shared->link != NULL, shared->path);

        if (r == 0 && shared->link)
                r = buf_printf(&key, " -> %s", shared->link);
        if (r < 0)
                return r;

        r = map_add(known, buf_str(&key), known);
        if (r == -EEXIST)
                return 0;
        if (r < 0)
                return r;

        return 1;
}

static int share_slot(const struct guards *guards, const struct slot *slot, struct map *known, struct plan_host *host,
                      struct err *err) {
        for (size_t i = 0; i < slot->guards.n; i++) {
                const struct plan_guard *guard = &slot->guards.p[i];
                const struct plan_path shared = { .path = guard->path,
                                                  .type = guard->link ? PLAN_PATH_LINK : PLAN_PATH_MISSING,
                                                  .access = PATH_READ,
                                                  .protected = true,
                                                  .origin = "built in: another sandbox that writes there guards it",
                                                  .link = guard->link };

                if (!roots_have(guard->path, (const char *const *)guards->roots.p, guards->roots.n))
                        continue;

                int r = remember_shared(known, &shared);
                if (r < 0)
                        return err_set(err, -r, "cannot keep the guarded path %s", guard->path);

                r = r > 0 ? survey_add(host, shared, err) : 0;
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Whether a running sandbox made this, under a name that was free when it started: then it will be swept. */
static bool is_planted(const struct slot *slot, const struct plan_path *path) {
        for (size_t i = 0; i < slot->guards.n; i++) {
                const struct plan_guard *guard = &slot->guards.p[i];
                if (guard->kind != PLAN_GUARD_MISSING)
                        continue;

                if (path_is_within(path->path, guard->path))
                        return true;
                if (path->type == PLAN_PATH_LINK && path_is_within(guard->path, path->path))
                        return true; /* a way to that name which was not there either */
        }

        return false;
}

/* Paths that the survey took for the host's own. As such they would be held as they are, and a link would even be
 * restored after the sweep; and the sandbox that made one could fail every other launch by removing it in time. */
static void disown_planted(const struct slot *slot, struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                struct plan_path *path = &host->paths.p[i];
                if (!path->protected || path->grants || path->access != PATH_READ || path->type == PLAN_PATH_MISSING)
                        continue;

                if (is_planted(slot, path)) {
                        path->type = PLAN_PATH_MISSING;
                        path->link = NULL;
                }
        }
}

static bool guards_alike(const struct slot *slot, const struct slot *other) {
        if (!other || slot->guards.n != other->guards.n)
                return false;

        for (size_t i = 0; i < slot->guards.n; i++)
                if (!guards_same(&slot->guards.p[i], &other->guards.p[i]))
                        return false;

        return true;
}

/* Many sandboxes in one workspace guard the same. The second of them in a row may disown what the first one has added;
 * a third changes nothing any more. */
static int share_all(const struct guards *guards, const slots *all, struct plan_host *host, struct err *err) {
        const struct slot *last[2] = { NULL, NULL };
        struct map known = { 0 };
        int r = 0;

        for (size_t i = 0; i < all->n && r == 0; i++) {
                const struct slot *slot = &all->p[i];
                if (!slot->id || strcmp(slot->id, guards->id) == 0)
                        continue;
                if (guards_alike(slot, last[0]) && guards_alike(slot, last[1]))
                        continue;

                disown_planted(slot, host);
                r = share_slot(guards, slot, &known, host, err);
                last[1] = last[0];
                last[0] = slot;
        }

        map_done(&known, NULL);
        return r;
}

/* Those who write in our roots, and those who may have made something that we protect, wherever it is. */
static int read_to_share(const struct registry *registry, const struct guards *guards, const struct plan_host *host,
                         slots *ret) {
        cleanup(guard_reach_done) struct guard_reach reach = { 0 };
        int r = registry_reach(&reach, registry, guards);

        for (size_t i = 0; i < host->paths.n && r == 0; i++)
                if (host->paths.p[i].protected && host->paths.p[i].type != PLAN_PATH_MISSING)
                        r = guard_reach_add(&reach, host->paths.p[i].path);

        guard_reach_ready(&reach);
        return r < 0 ? r : registry_read(registry, &reach, ret);
}

int guards_share(struct guards *guards, struct plan_host *host, struct err *err) {
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
        cleanup(slots_done) slots all = { 0 };

        if (guards->slot < 0)
                return 0;

        int r = add_found_roots(guards, host);
        if (r < 0)
                return err_memory(err);

        r = registry_open(&registry, false);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                r = read_to_share(&registry, guards, host, &all);
        if (r < 0)
                return err_set(err, -r, "cannot read which paths are guarded: %s", strerror(-r));

        return share_all(guards, &all, host, err);
}
