/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/guard_registry_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/processes/process.h"
#include "kept/git_rebase.h"
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

enum { SLOTS_KEPT = 8 }; /* also when they are free */

/* Where many ran at once, many slots are free. Whoever has one open has locked the registry, as we have. */
static void remove_free(const struct registry *registry, const struct slot *slot) {
        char name[16];

        snprintf(name, sizeof name, "%d", slot->number);
        if (slot->number >= SLOTS_KEPT)
                (void)unlinkat(registry->dir, name, 0);
}

static bool slot_is_free(const struct slot *slot) {
        struct stat st;

        return !slot->live && fstat(slot->fd, &st) == 0 && st.st_size == 0;
}

/* The lowest one, in whatever order the file system lists them: those above SLOTS_KEPT go. */
static bool take_free(struct guards *guards, const struct registry *registry, slots *all) {
        struct slot *lowest = NULL;

        for (size_t i = 0; i < all->n; i++) {
                struct slot *slot = &all->p[i];

                if (!slot_is_free(slot))
                        continue;
                if (lowest && lowest->number < slot->number) {
                        remove_free(registry, slot);
                        continue;
                }
                if (lowest)
                        remove_free(registry, lowest);
                lowest = slot;
        }
        if (!lowest)
                return false;

        guards->slot = lowest->fd;
        guards->number = lowest->number;
        lowest->fd = -1;
        return true;
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
                apart = !roots_have(plan->guards.p[i].path, roots, guards->roots.n);

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
                if (!roots_have(slot->guards.p[i].path, slot->roots.p, slot->roots.n))
                        return false;

        for (size_t i = 0; i < slot->made.n; i++)
                if (!roots_have(slot->made.p[i], slot->roots.p, slot->roots.n))
                        return false;

        for (size_t i = 0; i < slot->settings.n; i++)
                if (!roots_have(slot->settings.p[i], slot->roots.p, slot->roots.n))
                        return false;

        return true;
}

/* Whoever writes in our roots. To sweep for somebody else, everybody must be known who writes anywhere. */
static int read_to_sweep(const struct registry *registry, const struct guards *guards, bool begins, slots *ret) {
        cleanup(guard_reach_done) struct guard_reach reach = { .finds_over = begins };
        int r = registry_reach(&reach, registry, guards);

        reach.own = begins ? -1 : guards->number;
        guard_reach_ready(&reach);
        if (r == 0)
                r = registry_read(registry, &reach, ret);

        for (size_t i = 0; i < ret->n && r == 0; i++) {
                const struct slot *slot = &ret->p[i];
                bool own = slot->number == reach.own;

                if (slot_is_over(slot) && !(own && is_in_own_roots(slot))) {
                        slots_done(ret);
                        return registry_read(registry, NULL, ret);
                }
        }

        return r;
}

/* A file system's own clock may be a little behind. */
enum { CLOCK_SLACK_US = 20000 };

int guards_begin(struct guards *guards, const struct path_rules *rules, struct err *err) {
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
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
                (void)registry_sweep_over(&all, guards->report, guards->context, NULL,
                                          &unswept); /* tried again by the next */
        if (r == 0)
                r = take_slot(guards, &registry, &all);
        if (r == 0)
                r = write_slot(guards, &registry, NULL, NULL);

        return r < 0 ? err_set(err, -r, "cannot say which paths are guarded: %s", strerror(-r)) : 0;
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
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
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
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
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
                if (!slot_is_over(slot))
                        continue;

                int swept = registry_sweep_slot(&all, slot, strcmp(slot->id, guards->id) != 0, guards->report,
                                                guards->context, NULL, err);
                if (r == 0)
                        r = swept;
        }

        return r;
}

/* Others look at the slot itself from now on, also while this process lives. */
static void leave_slot(struct guards *guards) {
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;

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

bool guards_overlaid(const struct policy *policy, const char *path) {
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

                if (!now.paths.p[i].grants && lstat(guard.path, &st) == 0 && !guards_overlaid(policy, guard.path))
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
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
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
