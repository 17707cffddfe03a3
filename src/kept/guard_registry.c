/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/guard_registry.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/log.h"
#include "base/map.h"
#include "base/paths/path.h"
#include "base/processes/process.h"
#include "conf/dirs.h"
#include "kept/git_rebase.h"
#include "kept/guard_slot.h"
#include "kept/guard_table.h"
#include "kept/kept.h"
#include "sandbox/survey.h"
#include "store/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS_MAX = 4096, SLOTS_KEPT = 8 /* also when they are free */ };

/* --- all of them --- */

struct registry {
        int dir, lock;
        const char *over; /* the run that asks, when nothing of it lives any more; NULL: none */
        struct guard_table table;
};

static void registry_done(struct registry *registry) {
        guard_table_done(&registry->table);
        close_fd(&registry->lock);
        close_fd(&registry->dir);
}

/* -ENOENT: there is no place for it. */
static int registry_error(int error) {
        return path_error_answers(error) || error == EROFS ? -ENOENT : -error;
}

static int registry_open(struct registry *ret, bool make) {
        cleanup(free_ptr) char *state = NULL, *path = NULL;

        if (dirs_state(&state) < 0)
                return -ENOENT;

        path = path_join(state, "guards");
        if (!path)
                return -ENOMEM;

        ret->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->dir < 0 && make && path_make_private_dir(path, NULL) == 0)
                ret->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->dir < 0)
                return registry_error(errno);

        ret->lock = openat(ret->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (ret->lock < 0)
                return registry_error(errno);

        while (flock(ret->lock, LOCK_EX) < 0)
                if (errno != EINTR)
                        return -errno;

        guard_table_read(&ret->table, ret->dir, make);
        return 0;
}

enum { DYING_MS = 3000 }; /* for what was killed to be gone */

/* A slot that nobody else has locked, and whose first process has ended, is of a run that is over. -ENOENT: there is
 * none that is ours. */
static int slot_open(const struct registry *registry, int number, struct slot *ret) {
        char name[16];
        struct stat st;

        snprintf(name, sizeof name, "%d", number);
        *ret = (struct slot){ .number = number, .bytes = BUF(SLOT_READ_MAX) };
        ret->fd = openat(registry->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (ret->fd < 0)
                return path_error_answers(errno) ? -ENOENT : -errno;
        if (fstat(ret->fd, &st) < 0)
                return -errno;

        ret->live = flock(ret->fd, LOCK_EX | LOCK_NB) < 0;
        if (st.st_size == 0)
                return 0;

        if (st.st_size < SLOT_READ_MAX)
                (void)buf_reserve(&ret->bytes, (size_t)st.st_size + 1); /* in one read; without memory that says so */

        int r = fd_read_all(ret->fd, &ret->bytes);
        if (r < 0)
                return r;

        r = slot_parse(ret);

        /* Nothing of its own sandbox but init lives: the kernel need not be waited for, which ends its namespaces. */
        bool own = r == 0 && ret->id && registry->over && strcmp(ret->id, registry->over) == 0;
        if (r == 0 && !own && !ret->live && ret->first)
                ret->live = process_outlives(ret->first, ret->first_started, DYING_MS);
        if (ret->live)
                close_fd(&ret->fd); /* there may be more of them than descriptors */

        return r;
}

/* The cheapest look at a slot. */
static bool is_locked(const struct registry *registry, int number) {
        char name[16];

        snprintf(name, sizeof name, "%d", number);
        cleanup(close_fd) int fd = openat(registry->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static bool is_left_out(const struct registry *registry, struct guard_reach *reach, int number) {
        if (guard_reach_wants(reach, number))
                return false;

        return !guard_reach_doubts(reach, number) || is_locked(registry, number);
}

/* `reach` leaves out what it does not ask about; NULL: all. */
static int read_slots(const struct registry *registry, struct guard_reach *reach, slots *ret) {
        cleanup(listing_close) struct listing *dir = listing_open(registry->dir, ".");
        int r = 0;

        if (!dir)
                return -errno;

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(dir));) {
                uint64_t number;
                struct slot slot;

                if (!str_to_u64(str_of(entry->d_name), SLOTS_MAX, &number))
                        continue;
                if (reach && is_left_out(registry, reach, (int)number))
                        continue;

                int opened = slot_open(registry, (int)number, &slot);
                if (opened < 0) {
                        slot_done(&slot);
                        if (opened != -ENOENT)
                                r = opened; /* then we do not know where other sandboxes write */
                        continue;
                }

                if (!slot.live)
                        guard_row_clear(registry->dir, &registry->table, (int)number);
                else if (reach)
                        guard_reach_heard(reach, (int)number);

                r = vec_push(ret, slot);
        }

        return r == 0 ? -listing_error(dir) : r;
}

/* What somebody who writes here needs to know of others. */
static int reach_roots(struct guard_reach *reach, const struct registry *registry, const struct guards *guards) {
        int r = 0;

        reach->table = &registry->table;
        reach->own = -1;
        for (size_t i = 0; i < guards->roots.n && r == 0; i++)
                r = guard_reach_add(reach, guards->roots.p[i]);

        return r;
}

static bool in_roots(const char *path, const char *const *roots, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (path_is_within(path, roots[i]))
                        return true;
        return false;
}

static bool is_written(const slots *all, const char *path) {
        for (size_t i = 0; i < all->n; i++)
                if (all->p[i].live && in_roots(path, all->p[i].roots.p, all->p[i].roots.n))
                        return true;
        return false;
}

/* --- sweeping --- */

struct store {
        const char *id;
        int fd;
        guards_report *report;
        void *context;
};

static void store_pruned(const char *id, void *context) {
        const struct store *store = context;
        const struct guard_found gone = { .path = id, .done = GUARD_PRUNED };

        if (store->report)
                store->report(store->id, &gone, store->context);
}

static int store_open(void *context) {
        struct store *store = context;

        if (kept_open(store->id, &store->fd, NULL) < 0)
                store->fd = -1;
        else
                (void)kept_prune(store->id, store_pruned, store); /* nothing depends on it */
        return store->fd;
}

static void store_report(const struct guard_found *found, void *context) {
        struct store *store = context;

        if (store->fd >= 0 && found->kept && found->done != GUARD_BESIDE)
                (void)kept_record(store->fd, found->kept, found->path);
        if (store->report)
                store->report(store->id, found, store->context);
}

static int registry_sweep(const char *id, const struct plan_guard *guards, size_t n, bool late, guards_report *report,
                          void *context, struct err *err) {
        struct store store = { .id = id, .fd = -1, .report = report, .context = context };
        struct guard_sweep request = { .guards = guards,
                                       .n = n,
                                       .id = id,
                                       .late = late,
                                       .open_store = store_open,
                                       .report = store_report,
                                       .context = &store };
        int r = guard_sweep(&request, err);

        close_fd(&store.fd);
        return r;
}

/* Repositories that the sandbox made, wherever they are: they stay, but lose everything in them that git would run or
 * obey. If a sandbox can still write to one, it stays in the slot for later. */
static int sweep_made(const slots *all, const struct slot *slot, bool late, guards_report *report, void *context,
                      struct buf *rest, size_t *waiting, struct err *err) {
        VEC(struct plan_guard) now = { 0 };
        VEC(const char *) over = { 0 };
        struct plan_host found = { 0 };
        int r = 0;

        for (size_t i = 0; i < slot->made.n && r == 0; i++) {
                bool waits = is_written(all, slot->made.p[i]);

                *waiting += waits;
                r = waits ? slot_add_made(rest, slot->made.p[i]) : vec_push(&over, slot->made.p[i]);
        }

        const struct git_made made = { slot->roots.p, over.p, slot->roots.n, over.n };
        if (r == 0)
                r = survey_git_made(&made, &found, err);

        for (size_t i = 0; i < found.paths.n && r == 0; i++) {
                const struct plan_guard guard = { .path = found.paths.p[i].path, .why = "", .root = "/" };
                r = vec_push(&now, guard);
        }

        if (r == 0 && now.n)
                r = registry_sweep(slot->id, now.p, now.n, late, report, context, err);

        vec_done(&now);
        vec_done(&over);
        survey_done(&found);

        return r;
}

/* Of a run that was killed. At once, also where another sandbox can write: that one looks again when it ends. */
static void sweep_unfinished(struct slot *slot, guards_report *report, void *context) {
        struct guards left = {
                .slot = -1, .id = slot->id, .began_us = slot->began_us, .report = report, .context = context
        };

        git_rebase_left(&left, slot);
}

static bool same_text(const char *a, const char *b) {
        return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_guard(const struct plan_guard *a, const struct plan_guard *b) {
        return a->kind == b->kind && same_text(a->path, b->path) && same_text(a->link, b->link);
}

/* Sandboxes in one place mostly have the same guards, in the same order. */
static bool slot_guards(const struct slot *slot, const struct plan_guard *guard, size_t likely) {
        if (likely < slot->guards.n && same_guard(&slot->guards.p[likely], guard))
                return true;

        for (size_t i = 0; i < slot->guards.n; i++)
                if (same_guard(&slot->guards.p[i], guard))
                        return true;

        return false;
}

/* A sandbox that runs sweeps this when it ends, or whoever finds it killed. Without that, whoever ends beside it would
 * leave a slot behind. One whose command has not begun may never begin, and then it sweeps nothing. */
static bool is_inherited(const slots *all, const struct plan_guard *guard, size_t likely) {
        for (size_t i = 0; i < all->n; i++)
                if (all->p[i].live && all->p[i].first && slot_guards(&all->p[i], guard, likely))
                        return true;

        return false;
}

/* Of one that is over: what nobody writes to is swept, the rest waits. */
static int sweep_slot(const slots *all, struct slot *slot, bool late, guards_report *report, void *context,
                      size_t *left, struct err *err) {
        cleanup(buf_done) struct buf rest = BUF(SLOT_READ_MAX);
        VEC(struct plan_guard) now = { 0 };
        int r = slot_add_field(&rest, SLOT_MAGIC);
        size_t waiting = 0;

        if (r == 0)
                r = slot_add_field(&rest, slot->id);

        for (size_t i = 0; i < slot->roots.n && r == 0; i++)
                r = slot_add_root(&rest, slot->roots.p[i]);

        for (size_t i = 0; i < slot->guards.n && r == 0; i++) {
                const struct plan_guard *guard = &slot->guards.p[i];
                bool waits = is_written(all, guard->path);

                if (waits && is_inherited(all, guard, i))
                        continue;

                waiting += waits;
                r = waits ? slot_add_guard(&rest, guard) : vec_push(&now, *guard);
        }

        if (r == 0 && now.n)
                r = registry_sweep(slot->id, now.p, now.n, late, report, context, err);

        vec_done(&now);
        if (r == 0)
                r = sweep_made(all, slot, late, report, context, &rest, &waiting, err);
        if (late && slot->began_us)
                sweep_unfinished(slot, report, context);
        if (left)
                *left += waiting;
        if (r < 0)
                return r; /* the slot stays, and so it is tried again */
        if (waiting == 0)
                return ftruncate(slot->fd, 0) < 0 ? -errno : 0;

        return slot_write(slot->fd, &rest);
}

static bool is_over(const struct slot *slot) {
        return !slot->live && slot->id;
}

static int sweep_over(const slots *all, guards_report *report, void *context, size_t *left, struct err *err) {
        int first = 0;

        for (size_t i = 0; i < all->n; i++) {
                struct slot *slot = &all->p[i];
                int r = is_over(slot) ? sweep_slot(all, slot, true, report, context, left, err) : 0;

                if (first == 0)
                        first = r;
        }

        return first;
}

int guards_sweep_left(guards_report *report, void *context, size_t *ret_left, struct err *err) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
        cleanup(slots_done) slots all = { 0 };
        size_t left = 0;
        int r = registry_open(&registry, false);

        if (ret_left)
                *ret_left = 0;
        if (r == -ENOENT)
                return 0;

        if (r == 0)
                r = read_slots(&registry, NULL, &all);
        if (r < 0)
                return err_set(err, -r, "cannot read which paths are guarded: %s", strerror(-r));

        r = sweep_over(&all, report, context, &left, err);
        if (ret_left)
                *ret_left = left;

        return r;
}

/* --- a run --- */

/* Where many ran at once, many slots are free. Whoever has one open has locked the registry, as we have. */
static void remove_free(const struct registry *registry, const struct slot *slot) {
        char name[16];

        snprintf(name, sizeof name, "%d", slot->number);
        if (slot->number >= SLOTS_KEPT)
                (void)unlinkat(registry->dir, name, 0);
}

static bool take_free(struct guards *guards, const struct registry *registry, slots *all) {
        for (size_t i = 0; i < all->n; i++) {
                struct slot *slot = &all->p[i];
                struct stat st;

                if (slot->live || fstat(slot->fd, &st) < 0 || st.st_size != 0)
                        continue;

                if (guards->slot >= 0) {
                        remove_free(registry, slot);
                } else {
                        guards->slot = slot->fd;
                        guards->number = slot->number;
                        slot->fd = -1;
                }
        }

        return guards->slot >= 0;
}

static int take_slot(struct guards *guards, const struct registry *registry, slots *all) {
        char name[16];

        if (take_free(guards, registry, all))
                return 0;

        for (int number = 0; number < SLOTS_MAX; number++) {
                guards->number = number;
                snprintf(name, sizeof name, "%d", number);
                guards->slot = openat(registry->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (guards->slot >= 0)
                        return flock(guards->slot, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
                if (errno != EEXIST)
                        return -errno;
        }

        return -ENOSPC;
}

static int collect_roots(struct guards *g, const struct path_rules *rules) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (rule->decides_read || !rule->grants || rule->own)
                        continue;

                cleanup(free_ptr) char *real = realpath(rule->pattern, NULL);
                if (!real && !path_error_answers(errno))
                        return -errno;
                if (!real)
                        continue;
                if (vec_push(&g->roots, real) < 0)
                        return -ENOMEM;

                take_ptr(&real);
        }

        return 0;
}

/* So that others need not read it, if it is about other places or says what they know. */
static void write_row(const struct guards *guards, const struct registry *registry, const struct plan *plan,
                      struct str said) {
        const char *const *roots = (const char *const *)guards->roots.p;
        struct guard_row row;
        bool apart = false;

        for (size_t i = 0; plan && i < plan->guards.n && !apart; i++)
                apart = !in_roots(plan->guards.p[i].path, roots, guards->roots.n);

        row = guard_row_make(&registry->table, roots, guards->roots.n, apart, said.p, said.n);
        if (registry->table.known)
                guard_row_put(registry->dir, guards->number, &row);
        else
                guard_row_void(registry->dir, guards->number);
}

/* `found`: texts of the slot's, or NULL. */
static int write_slot(const struct guards *guards, const struct registry *registry, const struct plan *plan,
                      const struct buf *found) {
        cleanup(buf_done) struct buf bytes = BUF(SLOT_BYTES_MAX);
        int r = slot_add_field(&bytes, SLOT_MAGIC);
        size_t begin;

        if (r == 0)
                r = slot_add_field(&bytes, guards->id);

        begin = bytes.n;
        for (size_t i = 0; i < guards->roots.n && r == 0; i++)
                r = slot_add_root(&bytes, guards->roots.p[i]);

        for (size_t i = 0; plan && i < plan->guards.n && r == 0; i++)
                r = slot_add_guard(&bytes, &plan->guards.p[i]);

        size_t said = bytes.n - begin;
        if (r == 0 && found)
                r = buf_append(&bytes, buf_str(found));
        if (r == 0)
                r = slot_write(guards->slot, &bytes);
        if (r == 0)
                write_row(guards, registry, plan, str_n(bytes.p + begin, said));

        return r;
}

/* Whether all that this run is to sweep lies where it writes. */
static bool is_in_own_roots(const struct slot *slot) {
        for (size_t i = 0; i < slot->guards.n; i++)
                if (!in_roots(slot->guards.p[i].path, slot->roots.p, slot->roots.n))
                        return false;

        for (size_t i = 0; i < slot->made.n; i++)
                if (!in_roots(slot->made.p[i], slot->roots.p, slot->roots.n))
                        return false;

        return true;
}

/* Whoever writes in our roots. To sweep for somebody else, everybody must be known who writes anywhere. */
static int read_to_sweep(const struct registry *registry, const struct guards *guards, bool begins, slots *ret) {
        cleanup(guard_reach_done) struct guard_reach reach = { .finds_over = begins };
        int r = reach_roots(&reach, registry, guards);

        reach.own = begins ? -1 : guards->number;
        guard_reach_ready(&reach);
        if (r == 0)
                r = read_slots(registry, &reach, ret);

        for (size_t i = 0; i < ret->n && r == 0; i++) {
                const struct slot *slot = &ret->p[i];
                bool own = slot->number == reach.own;

                if (is_over(slot) && !(own && is_in_own_roots(slot))) {
                        slots_done(ret);
                        return read_slots(registry, NULL, ret);
                }
        }

        return r;
}

/* A file system's own clock may be a little behind. */
enum { CLOCK_SLACK_US = 20000 };

int guards_begin(struct guards *guards, const struct path_rules *rules, struct err *err) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
        cleanup(slots_done) slots all = { 0 };
        struct err unswept = { 0 };
        int r = collect_roots(guards, rules);

        if (r < 0)
                return err_set(err, -r, "cannot look at what may be written: %s", strerror(-r));

        guards->began_us = guards->roots.n ? clock_wall_us() - CLOCK_SLACK_US : 0;
        r = guards->roots.n ? registry_open(&registry, true) : -ENOENT;
        if (r == -ENOENT)
                return 0; /* nothing is written, or there is no place to say so */

        if (r == 0)
                r = read_to_sweep(&registry, guards, true, &all);
        if (r == 0)
                (void)sweep_over(&all, guards->report, guards->context, NULL, &unswept); /* tried again by the next */
        if (r == 0)
                r = take_slot(guards, &registry, &all);
        if (r == 0)
                r = write_slot(guards, &registry, NULL, NULL);

        return r < 0 ? err_set(err, -r, "cannot say which paths are guarded: %s", strerror(-r)) : 0;
}

/* Roots that the survey opened itself are among them from here on. */
static int add_found_roots(struct guards *g, const struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                if (!path->grants || path->access != PATH_WRITE || path->type != PLAN_PATH_DIR ||
                    in_roots(path->path, (const char *const *)g->roots.p, g->roots.n))
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

                if (!in_roots(guard->path, (const char *const *)guards->roots.p, guards->roots.n))
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
                if (!same_guard(&slot->guards.p[i], &other->guards.p[i]))
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
        int r = reach_roots(&reach, registry, guards);

        for (size_t i = 0; i < host->paths.n && r == 0; i++)
                if (host->paths.p[i].protected && host->paths.p[i].type != PLAN_PATH_MISSING)
                        r = guard_reach_add(&reach, host->paths.p[i].path);

        guard_reach_ready(&reach);
        return r < 0 ? r : read_slots(registry, &reach, ret);
}

int guards_share(struct guards *guards, struct plan_host *host, struct err *err) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
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

/* What the sandbox may leave unfinished, should nobody be there when it ends. */
static int say_open(const struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                    const struct plan_host *host, struct buf *ret) {
        int r = slot_add_began(ret, guards->began_us);

        for (size_t i = 0; i < host->git_known.n && r == 0; i++)
                if (git_rebase_may_leave(policy, rules, host, host->git_known.p[i]))
                        r = slot_add_open(ret, host->git_known.p[i]);

        return r;
}

int guards_record(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                  const struct plan_host *host, const struct plan *plan, struct err *err) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
        cleanup(buf_done) struct buf found = BUF(SLOT_BYTES_MAX);

        if (guards->slot < 0)
                return 0;

        int r = say_open(guards, policy, rules, host, &found);
        if (r == 0)
                r = registry_open(&registry, false);
        if (r == 0)
                r = write_slot(guards, &registry, plan, &found);
        guards->noted = plan->flags & PLAN_WRITES;

        return r < 0 ? err_set(err, -r, "cannot say which paths are guarded: %s", strerror(-r)) : 0;
}

int guards_hold(struct guards *guards, pid_t first, struct err *err) {
        cleanup(buf_done) struct buf bytes = BUF(256);
        char boot[PROCESS_BOOT_MAX], text[128];
        uint64_t started;

        if (guards->slot < 0)
                return 0;

        int r = process_start_time(first, &started);
        if (r == 0)
                r = process_boot(boot, NULL);
        if (r < 0)
                return err_set(err, -r, "the first process of the sandbox cannot be looked at: %s", strerror(-r));

        snprintf(text, sizeof text, "%d %" PRIu64 " %s", (int)first, started, boot);
        r = slot_add_field(&bytes, "first");
        if (r == 0)
                r = slot_add_field(&bytes, text);
        if (r == 0 && lseek(guards->slot, 0, SEEK_END) < 0)
                r = -errno;
        if (r == 0)
                r = fd_write_all(guards->slot, bytes.p, bytes.n);

        return r < 0 ? err_set(err, -r, "cannot say which process is the sandbox's first: %s", strerror(-r)) : 0;
}

int guards_end(struct guards *guards, const struct plan *plan, bool over, struct err *err) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
        cleanup(slots_done) slots all = { 0 };
        int r = guards->slot < 0 ? -ENOENT : registry_open(&registry, false);

        if (r < 0 && r != -ENOENT)
                return err_set(err, -r, "what the sandbox left is not swept yet, the next run does it: %s",
                               strerror(-r));
        if (r < 0)
                return plan ? registry_sweep(guards->id, plan->guards.p, plan->guards.n, false, guards->report,
                                             guards->context, err)
                            : 0;

        (void)flock(guards->slot, LOCK_UN); /* init has the same lock, and is over too */
        close_fd(&guards->slot);
        registry.over = over ? guards->id : NULL;
        r = read_to_sweep(&registry, guards, false, &all);
        guard_row_void(registry.dir, guards->number);
        if (r < 0)
                return err_set(err, -r, "what the sandbox left is not swept, its record cannot be read: %s",
                               strerror(-r));

        /* One that cannot be swept keeps no other from it. */
        for (size_t i = 0; i < all.n; i++) {
                struct slot *slot = &all.p[i];
                if (!is_over(slot))
                        continue;

                int swept = sweep_slot(&all, slot, strcmp(slot->id, guards->id) != 0, guards->report, guards->context,
                                       NULL, err);
                if (r == 0)
                        r = swept;
        }

        return r;
}

/* Others look at the slot itself from now on, also while this process lives. */
static void leave_slot(struct guards *guards) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };

        if (guards->slot < 0)
                return;
        if (registry_open(&registry, false) == 0)
                guard_row_void(registry.dir, guards->number);

        close_fd(&guards->slot);
}

void guards_drop(struct guards *guards) {
        if (guards->slot >= 0 && ftruncate(guards->slot, 0) < 0)
                log_warning("the next run looks at what this one guarded, though nothing of it ran");
        leave_slot(guards);
}

/* What is there is the host's: the sandbox has its own copy. */
static bool is_overlaid(const struct policy *policy, const char *path) {
        return policy->filesystem.overlay && path_is_within(path, policy->workspace);
}

int guards_end_repositories(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                            const struct plan_host *host, struct err *err) {
        struct plan_host now = { 0 };
        VEC(struct plan_guard) found = { 0 };
        int r;

        if (!guards->began_us)
                return 0; /* nothing ran */

        r = survey_git_after(policy, rules, host, guards->began_us, guards->noted, &now, err);
        for (size_t i = 0; i < now.paths.n && r == 0; i++) {
                const struct plan_guard guard = { .path = now.paths.p[i].path, .why = "", .root = "/" };
                struct stat st;

                if (!now.paths.p[i].grants && lstat(guard.path, &st) == 0 && !is_overlaid(policy, guard.path))
                        r = vec_push(&found, guard);
        }

        if (r == 0 && found.n)
                r = registry_sweep(guards->id, found.p, found.n, false, guards->report, guards->context, err);

        git_rebase_end(guards, policy, rules, host, &now);
        vec_done(&found);
        survey_done(&now);

        return r;
}

static int append_missing(const struct guards *guards, const struct plan_guard *more, size_t n) {
        cleanup(registry_done) struct registry registry = { .dir = -1, .lock = -1 };
        cleanup(buf_done) struct buf bytes = BUF(SLOT_BYTES_MAX);
        int r = registry_open(&registry, false);

        if (r == 0)
                guard_row_void(registry.dir, guards->number); /* it says more than its row knows */
        if (r == -ENOENT)
                r = 0;

        for (size_t i = 0; i < n && r == 0; i++)
                r = slot_add_guard(&bytes, &more[i]);

        if (r == 0 && lseek(guards->slot, 0, SEEK_END) < 0)
                r = -errno;

        return r == 0 ? fd_write_all(guards->slot, bytes.p, bytes.n) : r;
}

int guards_add_missing(struct guards *guards, const char *const *paths, size_t n, struct err *err) {
        VEC(struct plan_guard) more = { 0 };
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                const struct plan_guard guard = {
                        .path = paths[i], .kind = PLAN_GUARD_MISSING, .why = "", .root = "/"
                };
                r = vec_push(&more, guard);
        }

        if (r < 0)
                err_memory(err);
        else if (more.n && guards->slot < 0)
                r = registry_sweep(guards->id, more.p, more.n, false, guards->report, guards->context, err);
        else if (more.n) {
                r = append_missing(guards, more.p, more.n);
                if (r < 0)
                        err_set(err, -r, "cannot say what is to be moved away: %s", strerror(-r));
        }

        vec_done(&more);
        return r;
}

static void report_unfinished(const char *id, const struct guard_found *found, void *context) {
        const struct guards *guards = context;
        struct guard_found told = *found;

        if (told.done == GUARD_KEPT)
                told.done = GUARD_UNFINISHED;
        if (guards->report)
                guards->report(id, &told, guards->context);
}

int guards_move_away(struct guards *guards, const char *path, struct err *err) {
        const struct plan_guard guard = { .path = path, .kind = PLAN_GUARD_MISSING, .why = "", .root = "/" };

        return registry_sweep(guards->id, &guard, 1, false, report_unfinished, guards, err);
}

int guards_read_made(const struct guards *guards, struct slot *ret) {
        int r;

        *ret = (struct slot){ .fd = -1, .bytes = BUF(SLOT_READ_MAX) };
        if (guards->slot < 0)
                return 0;
        if (lseek(guards->slot, 0, SEEK_SET) < 0)
                return -errno;

        r = fd_read_all(guards->slot, &ret->bytes);
        return r == 0 ? slot_parse(ret) : r;
}

void guards_done(struct guards *g) {
        leave_slot(g);
        for (size_t i = 0; i < g->roots.n; i++)
                free(g->roots.p[i]);
        vec_done(&g->roots);
}
