/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging: globs by the rules of the policy (broker_rules.c), protected and write-denied paths by the plan's guards
 * (closed.h). The broker judges the object that it holds, and the canonical path of that object at the moment of the
 * call. A mount over a name vanishes when the host renames another file over it; this check does not.
 *
 * Names above a guard:
 *   - a directory is not moved away if it holds an existing guard that is not the sandbox's own,
 *   - if a guard existed at launch, nothing replaces a directory that the host removed or moved away,
 *   - where a person's guard is missing, only directories are made on the way to it, and one that is moved there brings
 *     no guarded name with it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"
#include "sandbox/linux/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `rule` lives as long as the plan: it is reported when the call's own places are gone. */
static int judge_refuse(struct held *held, const char *rule) {
        held->glob = rule;
        return -EACCES;
}

static int judge_glob(struct held *held, const char *path) {
        const char *glob = broker_denies(held->broker->rules, path, true);

        if (glob)
                return judge_refuse(held, glob);

        return 0;
}

int judge_read(struct held *held, const struct place *place) {
        const char *glob = broker_denies(held->broker->rules, place->path, false);

        if (glob)
                return judge_refuse(held, glob);

        return 0;
}

static bool is_swept_and_own(const struct held *held, const struct closed_look *look, const struct place *place) {
        struct stat st;

        if (!closed_is_swept(look->guard))
                return false;
        if (!look->at)
                return closed_stands_own(held->broker->closed, look->guard);
        if (place->object >= 0)
                return fstat(place->object, &st) == 0 && closed_is_own(held->broker->closed, look->guard, &st);
        if (fstatat(place->dir, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT; /* nothing is there: it may be made */

        return closed_is_own(held->broker->closed, look->guard, &st);
}

/* The sandbox's copy of a file that is closed: it is in nobody's way. */
static bool is_copy(const struct held *held, const struct place *place) {
        struct stat st;

        return place->object >= 0 && fstat(place->object, &st) == 0 && closed_is_copy(held->broker->closed, &st);
}

/* The directory was guarded, and is elsewhere now: is this name of it? */
static int judge_carried(struct held *held, const char *was, const char *name) {
        char path[PATH_MAX];
        struct closed_look look;

        if (snprintf(path, sizeof path, "%s/%s", was, name) >= (int)sizeof path)
                return -ENAMETOOLONG;
        closed_look(held->broker->closed, path, &look);
        if (look.guard && !closed_is_swept(look.guard))
                return judge_refuse(held, look.guard->path);

        return 0;
}

static int dir_stat(const struct place *place, size_t n, struct stat *ret) {
        char path[PATH_MAX];

        if (place->dir >= 0)
                return fstat(place->dir, ret);
        memcpy(path, place->path, n);
        path[n] = '\0';
        return stat(path, ret);
}

/* By its directory, if that was a guarded one: it may have been carried elsewhere, even since it was found. */
static int judge_dir(struct held *held, const struct place *place, const struct closed_look *here) {
        const char *name = strrchr(place->path, '/') + 1, *was;
        size_t n = (size_t)(name - place->path) - 1;
        struct stat st = place->dir_st;

        if (n == 0)
                return 0;
        if (!place->dir_known && dir_stat(place, n, &st) < 0)
                return 0;

        was = closed_dir(held->broker->closed, &st);
        if (!was) {
                if (here->dir_counts)
                        closed_learn_dir(held->broker->closed, place->path, n);
                return 0;
        }

        if (here->guard || (strncmp(was, place->path, n) == 0 && was[n] == '\0'))
                return 0; /* it has been judged there */

        return judge_carried(held, was, name);
}

/* *look caches facts about the path; it is empty if the call names no path. */
static int judge_looking(struct held *held, const struct place *place, struct closed_look *look) {
        const struct plan_copy_of *copy;
        int r;

        *look = (struct closed_look){ 0 };
        if (held->broker->programs && plan_is_program(place->path))
                return judge_refuse(held, PLAN_PROGRAMS_WHY); /* the mount would, without a record */

        r = judge_glob(held, place->path);
        if (r < 0 || !held->broker->closed || place->path[0] != '/')
                return r;

        closed_look(held->broker->closed, place->path, look);
        r = judge_dir(held, place, look);
        if (r < 0)
                return r;
        if (look->guard && !is_swept_and_own(held, look, place) && !is_copy(held, place))
                return judge_refuse(held, look->guard->path);

        copy = closed_copy_by_lock(held->broker->closed, place->path);
        if (copy)
                return judge_refuse(held, copy->path);

        return 0;
}

/* The sandbox's own under a guard has been judged by that. */
static bool is_unsettled(const struct held *held, const struct place *place, const struct closed_look *look) {
        if (!held->broker->fresh || look->guard || !look->dir_counts)
                return false;
        if (place->object >= 0)
                return fresh_is_foreign(held->broker->fresh, place->object, "");

        return fresh_is_foreign(held->broker->fresh, place->dir, place->name);
}

int judge_change(struct held *held, const struct place *place) {
        struct closed_look look;
        int r = judge_looking(held, place, &look);

        return r == 0 && is_unsettled(held, place, &look) ? JUDGE_LATER : r;
}

void note_gone(struct held *held, const struct place *place) {
        struct closed_look look;

        if (!held->broker->fresh || place->path[0] != '/')
                return;
        closed_look(held->broker->closed, place->path, &look);
        if (look.dir_counts)
                fresh_goes(held->broker->fresh, place->dir, place->name);
}

static int judge_stat(struct held *held, const struct stat *st) {
        const struct plan_guard *guard;

        guard = closed_object(held->broker->closed, st, S_ISREG(st->st_mode) && st->st_nlink > 1);
        if (guard)
                return judge_refuse(held, guard->path);

        return 0;
}

int judge_object(struct held *held, int object) {
        struct stat st;

        if (!held->broker->closed)
                return 0;
        if (fstat(object, &st) < 0)
                return -errno;

        return judge_stat(held, &st);
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

int judge_new(struct held *held, const struct place *place, mode_t kind) {
        struct on_the_way way = { .directory = kind == S_IFDIR };
        struct closed_look look;
        int r;

        r = judge_looking(held, place, &look);
        if (r < 0 || !held->broker->closed || place->path[0] != '/')
                return r;

        r = judge_repository(held, place);
        if (r < 0)
                return r;

        /* A directory that the host carried here from a guarded place. */
        if (place->dir_known)
                r = judge_stat(held, &place->dir_st);
        else
                r = judge_object(held, place->dir);
        if (r < 0)
                return r;

        if (look.above && closed_below(held->broker->closed, place->path, find_fixed, &way))
                return judge_refuse(held, way.found->path);

        r = judge_founding(held, place);
        if (r < 0)
                return r;

        return judge_settings(held, place, &look, kind);
}

void judge_made(struct held *held, const struct place *place, int object) {
        struct closed_look look;

        if (!held->broker->closed || place->path[0] != '/')
                return;

        note_made(held, place, held->replaces);
        closed_look(held->broker->closed, place->path, &look);
        if (held->broker->fresh && look.dir_counts && object >= 0)
                fresh_made(held->broker->fresh, object, "");
        else if (held->broker->fresh && look.dir_counts)
                fresh_made(held->broker->fresh, place->dir, place->name);
        if (!look.guard || !look.at)
                return;

        cleanup(close_fd) int found =
            object < 0 ? openat(place->dir, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (object >= 0 || found >= 0)
                closed_own(held->broker->closed, look.guard, object >= 0 ? object : found);
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

int judge_move(struct held *held, const struct place *from, const struct place *to, bool directory) {
        struct move move = { held, from, NULL };
        int r;

        if (!held->broker->closed || from->path[0] != '/' || to->path[0] != '/')
                return 0;

        r = judge_object(held, from->object);
        if (r == 0 && directory && closed_below(held->broker->closed, from->path, find_foreign, &move))
                r = judge_refuse(held, move.found->path);

        if (r < 0) {
                broker_report_about(held, from);
                return r;
        }

        if (!directory)
                return judge_new(held, to, S_IFREG);
        if (closed_below(held->broker->closed, to->path, find_brought, &move))
                return judge_refuse(held, move.found->path);

        return judge_new(held, to, S_IFDIR);
}

void judge_moved(struct held *held, const struct place *from, const struct place *to, bool directory) {
        struct move move = { held, from, NULL };

        if (!held->broker->closed || to->path[0] != '/')
                return;
        judge_made(held, to, from->object);
        if (directory)
                (void)closed_below(held->broker->closed, to->path, own_brought, &move);
}
