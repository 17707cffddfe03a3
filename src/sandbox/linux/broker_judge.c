/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging: globs by the rules of the policy (broker_rules.c), protected and write-denied paths by the plan's guards
 * (closed.h). What is judged is the canonical path of what is held, at the moment of the call, and the object itself:
 * a mount over a name goes when the host renames another file over it; this does not.
 *
 * Names above a guard:
 *   - what holds a guard that is there and not the sandbox's own is not moved away,
 *   - where a guard existed at launch, nothing takes the place of a directory that the host removed or carried away,
 *   - where a person's guard is missing, only directories are made on the way to it, and one that is moved there brings
 *     no guarded name with it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker_ops.h"
#include "sandbox/linux/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(struct held *h, const char *rule) {
        h->glob = rule;
        return -EACCES;
}

static int judge_glob(struct held *h, const char *path) {
        const char *glob = broker_denies(h->broker->rules, path, true);

        return glob ? refuse(h, glob) : 0;
}

int judge_read(struct held *h, const struct place *p) {
        const char *glob = broker_denies(h->broker->rules, p->path, false);

        return glob ? refuse(h, glob) : 0;
}

static bool is_swept_and_own(const struct held *h, const struct closed_look *look, const struct place *p) {
        struct stat st;

        if (!closed_is_swept(look->guard))
                return false;
        if (!look->at)
                return closed_stands_own(h->broker->closed, look->guard);
        if (p->object >= 0)
                return fstat(p->object, &st) == 0 && closed_is_own(h->broker->closed, look->guard, &st);
        if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT; /* nothing is there: it may be made */
        return closed_is_own(h->broker->closed, look->guard, &st);
}

/* The sandbox's copy of a file that is closed: it is in nobody's way. */
static bool is_copy(const struct held *h, const struct place *p) {
        struct stat st;

        return p->object >= 0 && fstat(p->object, &st) == 0 && closed_is_copy(h->broker->closed, &st);
}

/* The directory was guarded, and is elsewhere now: is this name of it? */
static int judge_carried(struct held *h, const char *was, const char *name) {
        char path[PATH_MAX];
        struct closed_look look;

        if (snprintf(path, sizeof path, "%s/%s", was, name) >= (int)sizeof path)
                return -ENAMETOOLONG;
        closed_look(h->broker->closed, path, &look);
        return look.guard && !closed_is_swept(look.guard) ? refuse(h, look.guard->path) : 0;
}

static int dir_stat(const struct place *p, size_t n, struct stat *ret) {
        char path[PATH_MAX];

        if (p->dir >= 0)
                return fstat(p->dir, ret);
        memcpy(path, p->path, n);
        path[n] = '\0';
        return stat(path, ret);
}

/* By its directory, if that was a guarded one: it may have been carried elsewhere, even since it was found. */
static int judge_dir(struct held *h, const struct place *p, const struct closed_look *here) {
        const char *name = strrchr(p->path, '/') + 1, *was;
        size_t n = (size_t)(name - p->path) - 1;
        struct stat st = p->dir_st;

        if (n == 0)
                return 0;
        if (!p->dir_known && dir_stat(p, n, &st) < 0)
                return 0;

        was = closed_dir(h->broker->closed, &st);
        if (!was) {
                if (here->dir_counts)
                        closed_learn_dir(h->broker->closed, p->path, n);
                return 0;
        }
        if (here->guard || (strncmp(was, p->path, n) == 0 && was[n] == '\0'))
                return 0; /* it has been judged there */
        return judge_carried(h, was, name);
}

/* *look is what is known of the path, and nothing where nobody asks by path. */
static int judge_looking(struct held *h, const struct place *p, struct closed_look *look) {
        int r;

        *look = (struct closed_look){ 0 };
        r = judge_glob(h, p->path);
        if (r < 0 || !h->broker->closed || p->path[0] != '/')
                return r;

        closed_look(h->broker->closed, p->path, look);
        r = judge_dir(h, p, look);
        if (r < 0)
                return r;
        if (look->guard && !is_swept_and_own(h, look, p) && !is_copy(h, p))
                return refuse(h, look->guard->path);
        return closed_copy_by_lock(h->broker->closed, p->path) ? refuse(h, p->path) : 0;
}

/* The sandbox's own under a guard has been judged by that. */
static bool is_unsettled(const struct held *h, const struct place *p, const struct closed_look *look) {
        if (!h->broker->fresh || look->guard || !look->dir_counts)
                return false;
        return fresh_is_foreign(h->broker->fresh, p->object >= 0 ? p->object : p->dir, p->object >= 0 ? "" : p->name);
}

int judge_change(struct held *h, const struct place *p) {
        struct closed_look look;
        int r = judge_looking(h, p, &look);

        return r == 0 && is_unsettled(h, p, &look) ? JUDGE_LATER : r;
}

void note_gone(struct held *h, const struct place *p) {
        struct closed_look look;

        if (!h->broker->fresh || p->path[0] != '/')
                return;
        closed_look(h->broker->closed, p->path, &look);
        if (look.dir_counts)
                fresh_goes(h->broker->fresh, p->dir, p->name);
}

static int judge_stat(struct held *h, const struct stat *st) {
        const struct plan_guard *guard;

        guard = closed_object(h->broker->closed, st, S_ISREG(st->st_mode) && st->st_nlink > 1);
        return guard ? refuse(h, guard->path) : 0;
}

int judge_object(struct held *h, int object) {
        struct stat st;

        if (!h->broker->closed)
                return 0;
        return fstat(object, &st) < 0 ? -errno : judge_stat(h, &st);
}

struct on_the_way {
        const struct plan_guard *found;
        bool directory;
};

static int find_fixed(void *context, const struct plan_guard *guard, const char *rest) {
        struct on_the_way *way = context;

        (void)rest;
        way->found = guard;
        if (way->directory)
                return guard->kind != PLAN_GUARD_MISSING;
        return !closed_is_swept(guard);
}

int judge_new(struct held *h, const struct place *p, mode_t kind) {
        struct on_the_way way = { .directory = kind == S_IFDIR };
        struct closed_look look;
        int r;

        r = judge_looking(h, p, &look);
        if (r < 0 || !h->broker->closed || p->path[0] != '/')
                return r;

        r = judge_repository(h, p);
        if (r < 0)
                return r;

        /* A directory that the host carried here from a guarded place. */
        r = p->dir_known ? judge_stat(h, &p->dir_st) : judge_object(h, p->dir);
        if (r < 0)
                return r;

        if (look.above && closed_below(h->broker->closed, p->path, find_fixed, &way))
                return refuse(h, way.found->path);
        return judge_founding(h, p);
}

void judge_made(struct held *h, const struct place *p, int object) {
        struct closed_look look;

        if (!h->broker->closed || p->path[0] != '/')
                return;
        note_made(h, p, h->replaces);
        closed_look(h->broker->closed, p->path, &look);
        if (h->broker->fresh && look.dir_counts)
                fresh_made(h->broker->fresh, object >= 0 ? object : p->dir, object >= 0 ? "" : p->name);
        if (!look.guard || !look.at)
                return;

        cleanup(close_fd) int found = object < 0 ? openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (object >= 0 || found >= 0)
                closed_own(h->broker->closed, look.guard, object >= 0 ? object : found);
}

/* --- moves --- */

struct move {
        struct held *h;
        const struct place *from;
        const struct plan_guard *found;
};

static int find_foreign(void *context, const struct plan_guard *guard, const char *rest) {
        struct move *move = context;
        struct stat st;

        (void)rest;
        move->found = guard;
        return lstat(guard->path, &st) == 0 && !closed_is_own(move->h->broker->closed, guard, &st);
}

static int find_brought(void *context, const struct plan_guard *guard, const char *rest) {
        struct move *move = context;
        struct stat st;

        move->found = guard;
        return !closed_is_swept(guard) && fstatat(move->from->object, rest, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int own_brought(void *context, const struct plan_guard *guard, const char *rest) {
        struct move *move = context;
        cleanup(close_fd) int object = openat(move->from->object, rest, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (object >= 0 && closed_is_swept(guard))
                closed_own(move->h->broker->closed, guard, object);
        return 0;
}

int judge_move(struct held *h, const struct place *from, const struct place *to, bool directory) {
        struct move move = { h, from, NULL };
        int r;

        if (!h->broker->closed || from->path[0] != '/' || to->path[0] != '/')
                return 0;
        r = judge_object(h, from->object);
        if (r < 0)
                return r;
        if (!directory)
                return judge_new(h, to, S_IFREG);

        if (closed_below(h->broker->closed, from->path, find_foreign, &move))
                return refuse(h, move.found->path);
        if (closed_below(h->broker->closed, to->path, find_brought, &move))
                return refuse(h, move.found->path);
        return judge_new(h, to, S_IFDIR);
}

void judge_moved(struct held *h, const struct place *from, const struct place *to, bool directory) {
        struct move move = { h, from, NULL };

        if (!h->broker->closed || to->path[0] != '/')
                return;
        judge_made(h, to, from->object);
        if (directory)
                (void)closed_below(h->broker->closed, to->path, own_brought, &move);
}
