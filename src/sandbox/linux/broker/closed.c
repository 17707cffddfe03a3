/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/closed.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { DIRS_MAX = 256 };
enum { WALKED_MAX = 4096 /* files below guards that are compared with one that has several names */ };

struct object {
        dev_t dev;
        ino_t ino;
        int held; /* O_PATH, so that the number is not used again; -1: none */
};

struct slot {
        const char *path;
        size_t n;
        const struct plan_guard *guard; /* NULL: an opening, or only on the way to guards */
        bool opening;
        bool above;
};

struct dir {
        struct object object;
        char *path;
};

struct closed {
        const struct plan *plan;
        const struct plan_guard *guards; /* the plan's, and behind them those that came later */
        size_t n_guards;
        struct plan_guard *grown; /* where they are then; NULL: the list is the plan's own */
        VEC(char *) texts;        /* of those that came later. Refusals name them, so they stay */
        VEC(const char *) opened; /* openings that came later, in these texts */
        struct dir dirs[DIRS_MAX];
        size_t n_dirs;        /* that were ever learned: the oldest goes first */
        struct object *first; /* by guard: what was there when the broker began */
        struct object *own;   /* by guard: what the sandbox made there */
        int *locks;           /* by copy: what git writes before it becomes the copy; -1: nobody does */
        struct slot *slots;
        size_t size; /* a power of two */
};

/* --- the table --- */

#define HASH_START 0xcbf29ce484222325ULL

static uint64_t hash_next(uint64_t hash, char byte) {
        return (hash ^ (unsigned char)byte) * 0x100000001b3ULL;
}

static struct slot *closed_slot(const struct closed *closed, const char *path, size_t n, uint64_t hash) {
        size_t at = (size_t)(hash ^ hash >> 32) & (closed->size - 1);

        while (closed->slots[at].path && (closed->slots[at].n != n || memcmp(closed->slots[at].path, path, n) != 0))
                at = (at + 1) & (closed->size - 1);
        return &closed->slots[at];
}

static struct slot *closed_put(struct closed *closed, const char *path, size_t n) {
        uint64_t hash = HASH_START;

        for (size_t i = 0; i < n; i++)
                hash = hash_next(hash, path[i]);

        struct slot *slot = closed_slot(closed, path, n, hash);
        slot->path = path;
        slot->n = n;

        return slot;
}

static void closed_put_guard(struct closed *closed, const struct plan_guard *guard) {
        size_t n = strlen(guard->path);
        struct slot *slot = closed_put(closed, guard->path, n);

        /* Two guards at one path: the one that is never the sandbox's own. */
        if (!slot->guard || closed_is_swept(slot->guard))
                slot->guard = guard;

        for (size_t i = n; i-- > 1;)
                if (guard->path[i] == '/')
                        closed_put(closed, guard->path, i)->above = true;
}

static size_t slots_needed(const struct closed *closed) {
        size_t needed = closed->plan->openings.n + closed->opened.n + 1, size = 64;

        for (size_t i = 0; i < closed->n_guards; i++)
                for (const char *s = closed->guards[i].path; *s; s++)
                        needed += *s == '/';

        while (size < 2 * needed)
                size *= 2;

        return size;
}

static void object_hold(struct object *object, const char *path) {
        struct stat st;
        int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return;

        if (fstat(fd, &st) < 0)
                close(fd);
        else
                *object = (struct object){ st.st_dev, st.st_ino, fd };
}

static void objects_done(struct object *objects, size_t n) {
        for (size_t i = 0; objects && i < n; i++)
                close_fd(&objects[i].held);
        free(objects);
}

void closed_free(struct closed *closed) {
        if (!closed)
                return;

        size_t dirs = min_of(closed->n_dirs, DIRS_MAX);
        for (size_t i = 0; i < dirs; i++) {
                close_fd(&closed->dirs[i].object.held);
                free(closed->dirs[i].path);
        }

        for (size_t i = 0; closed->locks && i < closed->plan->copies.n; i++)
                close_fd(&closed->locks[i]);

        free(closed->locks);
        objects_done(closed->first, closed->n_guards);
        objects_done(closed->own, closed->n_guards);
        for (size_t i = 0; i < closed->texts.n; i++)
                free(closed->texts.p[i]);

        vec_done(&closed->texts);
        vec_done(&closed->opened);
        free(closed->grown);
        free(closed->slots);
        free(closed);
}

void closed_freep(struct closed **c) {
        closed_free(*c);
        *c = NULL;
}

static void closed_fill(struct closed *closed) {
        const struct plan *plan = closed->plan;

        for (size_t i = 0; i < closed->n_guards; i++)
                closed_put_guard(closed, &closed->guards[i]);

        for (size_t i = 0; i < plan->openings.n; i++)
                closed_put(closed, plan->openings.p[i], strlen(plan->openings.p[i]))->opening = true;

        for (size_t i = 0; i < closed->opened.n; i++)
                closed_put(closed, closed->opened.p[i], strlen(closed->opened.p[i]))->opening = true;
}

/* What is there now, from this guard on. */
static void closed_hold(struct closed *closed, size_t from) {
        for (size_t i = from; i < closed->n_guards; i++) {
                closed->first[i].held = closed->own[i].held = -1;
                if (closed->guards[i].kind != PLAN_GUARD_MISSING)
                        object_hold(&closed->first[i], closed->guards[i].path);
        }

        for (size_t i = from; i < closed->n_guards; i++) {
                const char *path = closed->guards[i].path, *slash = strrchr(path, '/');

                closed_learn_dir(closed, path, (size_t)(slash - path));
                if (closed->guards[i].kind == PLAN_GUARD_DIR)
                        closed_learn_dir(closed, path, strlen(path));
        }
}

int closed_new(const struct plan *plan, struct closed **ret) {
        struct closed *closed = calloc(1, sizeof *closed);

        if (!closed)
                return -ENOMEM;

        closed->plan = plan;
        closed->guards = plan->guards.p;
        closed->n_guards = plan->guards.n;
        closed->size = slots_needed(closed);
        closed->slots = calloc(closed->size, sizeof *closed->slots);
        closed->first = calloc(plan->guards.n + 1, sizeof *closed->first);
        closed->own = calloc(plan->guards.n + 1, sizeof *closed->own);
        closed->locks = calloc(plan->copies.n + 1, sizeof *closed->locks);
        if (!closed->slots || !closed->first || !closed->own || !closed->locks)
                return -ENOMEM; /* the broker ends, and what it holds with it */

        for (size_t i = 0; i < plan->copies.n; i++)
                closed->locks[i] = -1;

        closed_fill(closed);
        closed_hold(closed, 0);
        *ret = closed;
        return 0;
}

/* --- more of them --- */

static bool closed_covers(const struct closed *closed, const char *path) {
        struct closed_look look;

        closed_look(closed, path, &look);
        return look.guard && !closed_is_swept(look.guard) && (look.at || look.guard->kind != PLAN_GUARD_LINK);
}

static const char *closed_text(struct closed *closed, const char *text) {
        cleanup(free_ptr) char *copy = strdup(text_or(text, ""));

        if (!copy || vec_push(&closed->texts, copy) < 0)
                return NULL;
        return take_ptr(&copy);
}

/* Room for so many more. What is held in there stays. */
static int closed_grow(struct closed *closed, size_t more) {
        size_t n = closed->n_guards + more + 1;
        struct object *first = reallocarray(closed->first, n, sizeof *first);
        if (!first)
                return -ENOMEM;
        closed->first = first;

        struct object *own = reallocarray(closed->own, n, sizeof *own);
        if (!own)
                return -ENOMEM;
        closed->own = own;

        struct plan_guard *grown = reallocarray(closed->grown, n, sizeof *grown);
        if (!grown)
                return -ENOMEM;
        if (!closed->grown && closed->n_guards)
                memcpy(grown, closed->guards, closed->n_guards * sizeof *grown);

        closed->guards = closed->grown = grown;
        return 0;
}

int closed_add_opening(struct closed *closed, const char *path) {
        const char *text = closed_text(closed, path);

        if (!text)
                return -ENOMEM;

        return vec_push(&closed->opened, text);
}

static int closed_append(struct closed *closed, const struct plan_guard *guard) {
        struct plan_guard *last = &closed->grown[closed->n_guards];

        *last = *guard;
        last->path = closed_text(closed, guard->path);
        last->link = closed_text(closed, guard->link);
        if (!last->path || !last->link)
                return -ENOMEM;

        closed->n_guards++;
        return 0;
}

/* The table points into the list: it is asked before the list grows, and made anew after. */
int closed_add(struct closed *closed, const struct plan_guard *more, size_t n) {
        cleanup(free_ptr) bool *covered = calloc(n + 1, sizeof *covered);
        size_t before = closed->n_guards;
        int r = covered ? 0 : -ENOMEM;

        for (size_t i = 0; i < n && r == 0; i++)
                covered[i] = closed_covers(closed, more[i].path);

        if (r == 0)
                r = closed_grow(closed, n);

        for (size_t i = 0; i < n && r == 0; i++)
                if (!covered[i])
                        r = closed_append(closed, &more[i]);

        if (r < 0)
                return r;

        free(closed->slots);
        closed->size = slots_needed(closed);
        closed->slots = calloc(closed->size, sizeof *closed->slots);
        if (!closed->slots)
                return -ENOMEM;

        closed_fill(closed);
        closed_hold(closed, before);
        return 0;
}

void closed_look(const struct closed *closed, const char *path, struct closed_look *ret) {
        uint64_t hash = HASH_START;

        *ret = (struct closed_look){ 0 };

        for (size_t i = 0;; i++) {
                bool ends = path[i] == '\0';

                if (i > 1 && (ends || path[i] == '/')) {
                        const struct slot *slot = closed_slot(closed, path, i, hash);

                        if (slot->guard || (slot->path && slot->opening)) {
                                ret->guard = slot->opening ? NULL : slot->guard;
                                ret->at = ends;
                        }

                        if (ends)
                                ret->above = slot->path && slot->above;
                        else
                                ret->dir_counts = ret->guard || (slot->path && slot->above);
                }

                if (ends)
                        break;

                hash = hash_next(hash, path[i]);
        }

        if (!ret->guard)
                ret->at = false;
}

bool closed_is_swept(const struct plan_guard *guard) {
        return guard->kind == PLAN_GUARD_MISSING && str_starts(str_of(guard->why), STR("built in"));
}

int closed_below(const struct closed *closed, const char *path, closed_each *each, void *context) {
        size_t n = strlen(path);

        for (size_t i = 0; i < closed->n_guards; i++) {
                const struct plan_guard *guard = &closed->guards[i];

                if (strncmp(guard->path, path, n) != 0 || guard->path[n] != '/')
                        continue;

                int r = each(context, guard, guard->path + n + 1);
                if (r != 0)
                        return r;
        }

        return 0;
}

/* --- objects --- */

static bool object_is(const struct object *object, const struct stat *st) {
        return object->held >= 0 && object->ino == st->st_ino && object->dev == st->st_dev;
}

static size_t guard_index(const struct closed *closed, const struct plan_guard *guard) {
        return (size_t)(guard - closed->guards);
}

void closed_own(struct closed *closed, const struct plan_guard *guard, int object) {
        struct object *own = &closed->own[guard_index(closed, guard)];
        struct stat st;

        close_fd(&own->held);
        if (fstat(object, &st) < 0)
                return;
        *own = (struct object){ st.st_dev, st.st_ino, fcntl(object, F_DUPFD_CLOEXEC, 3) };
}

bool closed_is_own(const struct closed *closed, const struct plan_guard *guard, const struct stat *st) {
        return object_is(&closed->own[guard_index(closed, guard)], st);
}

bool closed_stands_own(const struct closed *closed, const struct plan_guard *guard) {
        struct stat st;

        return lstat(guard->path, &st) == 0 && closed_is_own(closed, guard, &st);
}

const char *closed_dir(const struct closed *closed, const struct stat *st) {
        size_t n = min_of(closed->n_dirs, DIRS_MAX);

        for (size_t i = 0; i < n; i++)
                if (object_is(&closed->dirs[i].object, st))
                        return closed->dirs[i].path;
        return NULL;
}

void closed_learn_dir(struct closed *closed, const char *path, size_t n) {
        struct dir fresh = { .object.held = -1, .path = strndup(path, n) };
        struct dir *slot = &closed->dirs[closed->n_dirs % DIRS_MAX];
        struct stat st;

        if (fresh.path && n > 0)
                object_hold(&fresh.object, fresh.path);

        if (fresh.object.held >= 0 && fstat(fresh.object.held, &st) == 0 && S_ISDIR(st.st_mode) &&
            !closed_dir(closed, &st)) {
                if (closed->n_dirs >= DIRS_MAX) {
                        close_fd(&slot->object.held);
                        free(slot->path);
                }

                *slot = fresh;
                closed->n_dirs++;
                return;
        }

        close_fd(&fresh.object.held);
        free(fresh.path);
}

/* Whether this file has a name in the directory, or below. Too much to look through counts as a yes. */
static bool dir_has(int taken, const struct stat *st, size_t *walked) {
        DIR *dir = fdopendir(taken);
        bool found = false;

        if (!dir) {
                close(taken);
                return false;
        }

        for (struct dirent *entry; !found && (entry = readdir(dir));) {
                if (entry->d_name[0] == '.' && (entry->d_name[1] == '\0' || strcmp(entry->d_name, "..") == 0))
                        continue;
                if (++*walked > WALKED_MAX)
                        found = true;
                else if (entry->d_type == DT_DIR) {
                        int below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        found = below >= 0 && dir_has(below, st, walked);
                } else
                        found = entry->d_ino == st->st_ino;
        }

        closedir(dir);
        return found;
}

/* The file has several names: is one of them at a guard, or below one? */
static bool guard_has(const struct closed *closed, const struct plan_guard *guard, const struct stat *st,
                      size_t *walked) {
        struct stat there;

        if (lstat(guard->path, &there) < 0 || there.st_dev != st->st_dev || closed_is_own(closed, guard, &there))
                return false;

        if (S_ISDIR(there.st_mode)) {
                int dir = open(guard->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                return dir >= 0 && dir_has(dir, st, walked);
        }

        return there.st_ino == st->st_ino;
}

/* --- copies --- */

const struct plan_copy_of *closed_copy_by_lock(const struct closed *closed, const char *path) {
        size_t n = strlen(path), suffix = sizeof ".lock" - 1;

        if (n <= suffix || strcmp(path + n - suffix, ".lock") != 0)
                return NULL;

        for (size_t i = 0; i < closed->plan->copies.n; i++) {
                const struct plan_copy_of *copy = &closed->plan->copies.p[i];
                if (strlen(copy->path) == n - suffix && memcmp(copy->path, path, n - suffix) == 0)
                        return copy;
        }

        return NULL;
}

bool closed_is_copy(const struct closed *closed, const struct stat *st) {
        for (size_t i = 0; i < closed->plan->copies.n; i++)
                if (closed->plan->copies.p[i].copy_ino == st->st_ino &&
                    closed->plan->copies.p[i].copy_dev == st->st_dev)
                        return true;
        return false;
}

int *closed_lock(struct closed *closed, const struct plan_copy_of *copy) {
        return &closed->locks[copy - closed->plan->copies.p];
}

/* The host's file under its copy. */
static const struct plan_guard *closed_real(const struct closed *closed, const struct stat *st) {
        for (size_t i = 0; i < closed->plan->copies.n; i++) {
                const struct plan_copy_of *copy = &closed->plan->copies.p[i];
                struct closed_look look;

                if (copy->real_ino != st->st_ino || copy->real_dev != st->st_dev)
                        continue;

                closed_look(closed, copy->path, &look);
                return look.guard;
        }

        return NULL;
}

const struct plan_guard *closed_object(const struct closed *closed, const struct stat *st, bool links) {
        const struct plan_guard *real = closed_real(closed, st);
        size_t walked = 0;

        if (real || closed_is_copy(closed, st))
                return real;

        for (size_t i = 0; i < closed->n_guards; i++)
                if (object_is(&closed->first[i], st))
                        return &closed->guards[i];

        for (size_t i = 0; links && i < closed->n_guards; i++)
                if (guard_has(closed, &closed->guards[i], st, &walked))
                        return &closed->guards[i];

        return NULL;
}
