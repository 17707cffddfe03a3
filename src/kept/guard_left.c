/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeping what runs left that are over. */
#include "kept/guard_registry_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "kept/git_rebase.h"
#include "kept/kept.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

int registry_sweep(const char *id, const struct plan_guard *guards, size_t n, bool late, guards_report *report,
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
                bool waits = slots_write_to(all, slot->made.p[i]);

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

/* A branch may have the name of a file without a dot in front. What begins like an object's id is no JSON. */
static bool is_branch(int dir, const char *name) {
        enum { ID = 40 };
        char text[ID];
        struct stat st;

        if (name[0] == '.')
                return false;

        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read(fd, text, ID) != ID)
                return false;

        for (size_t i = 0; i < ID; i++)
                if (ascii_hex(text[i]) < 0)
                        return false;

        return true;
}

/* Settings of agents below the top, as they were noted. Nothing of the sandbox lives any more: if a directory on the
 * way is a link by now, or is gone, nothing is there, and what the link leads to has notes of its own. */
static bool is_settings_gone(const char *path, bool late) {
        const char *slash = strrchr(path, '/');
        cleanup(free_ptr) char *directory = strndup(path, (size_t)(slash - path));
        struct stat st;

        if (!directory)
                return false;

        cleanup(close_fd) int dir = path_open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY, 0, PATH_NO_SYMLINKS);
        if (dir < 0)
                return dir == -ENOENT || dir == -ELOOP || dir == -ENOTDIR;
        if (is_branch(dir, slash + 1))
                return true;

        /* After a run that was killed it may be beside its place. */
        return !late && fstatat(dir, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int sweep_settings(const slots *all, const struct slot *slot, bool late, guards_report *report, void *context,
                          struct buf *rest, size_t *waiting, struct err *err) {
        VEC(struct plan_guard) now = { 0 };
        int r = 0;

        for (size_t i = 0; i < slot->settings.n && r == 0; i++) {
                const char *path = slot->settings.p[i];
                const struct plan_guard guard = { .path = path, .kind = PLAN_GUARD_MISSING, .why = "", .root = "/" };

                if (!roots_have(path, slot->roots.p, slot->roots.n))
                        continue; /* the sandbox could not write there: a record that was cut */

                if (slots_write_to(all, path)) {
                        ++*waiting;
                        r = slot_add_settings(rest, path);
                } else if (!is_settings_gone(path, late))
                        r = vec_push(&now, guard);
        }

        if (r == 0 && now.n)
                r = registry_sweep(slot->id, now.p, now.n, late, report, context, err);

        vec_done(&now);
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

bool guards_same(const struct plan_guard *a, const struct plan_guard *b) {
        return a->kind == b->kind && same_text(a->path, b->path) && same_text(a->link, b->link);
}

/* Sandboxes in one place mostly have the same guards, in the same order. */
static bool slot_guards(const struct slot *slot, const struct plan_guard *guard, size_t likely) {
        if (likely < slot->guards.n && guards_same(&slot->guards.p[likely], guard))
                return true;

        for (size_t i = 0; i < slot->guards.n; i++)
                if (guards_same(&slot->guards.p[i], guard))
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

int registry_sweep_slot(const slots *all, struct slot *slot, bool late, guards_report *report, void *context,
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
                bool waits = slots_write_to(all, guard->path);

                if (waits && is_inherited(all, guard, i))
                        continue;

                waiting += waits;
                r = waits ? slot_add_guard(&rest, guard) : vec_push(&now, *guard);
        }

        if (r == 0 && now.n)
                r = registry_sweep(slot->id, now.p, now.n, late, report, context, err);

        vec_done(&now);
        if (r == 0)
                r = sweep_settings(all, slot, late, report, context, &rest, &waiting, err);
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

int registry_sweep_over(const slots *all, guards_report *report, void *context, size_t *left, struct err *err) {
        int first = 0;

        for (size_t i = 0; i < all->n; i++) {
                struct slot *slot = &all->p[i];
                int r = slot_is_over(slot) ? registry_sweep_slot(all, slot, true, report, context, left, err) : 0;

                if (first == 0)
                        first = r;
        }

        return first;
}

int guards_sweep_left(guards_report *report, void *context, size_t *ret_left, struct err *err) {
        cleanup(registry_done) struct registry registry = REGISTRY_NONE;
        cleanup(slots_done) slots all = { 0 };
        size_t left = 0;
        int r = registry_open(&registry, false);

        if (ret_left)
                *ret_left = 0;
        if (r == -ENOENT)
                return 0;

        if (r == 0)
                r = registry_read(&registry, NULL, &all);
        if (r < 0)
                return err_set(err, -r, "cannot read which paths are guarded: %s", strerror(-r));

        r = registry_sweep_over(&all, report, context, &left, err);
        if (ret_left)
                *ret_left = left;

        return r;
}
