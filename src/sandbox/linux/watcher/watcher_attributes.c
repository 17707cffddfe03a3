/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modes, owners, times and extended attributes, which Landlock ignores: the owner of a file could change them anywhere.
 * Here the file must lie in a place that the sandbox may write to. It is held, judged by where it is, and changed by
 * what is held.
 *
 * One table says what each call looks like; two of them differ only in where their arguments are.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "plan/landlock.h"
#include "sandbox/linux/watcher/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

enum { VALUE_MAX = 65536, NAME_BYTES = 256 };

/* What Landlock lets be written. Devices are written to, but they are nobody's files. */
static bool may_write(const struct plan *plan, const char *path) {
        if (path_is_within(path, "/dev"))
                return false;
        for (size_t i = 0; i < plan->landlock.rules.n; i++)
                if ((plan->landlock.rules.p[i].access & LANDLOCK_FS_WRITE_FILE) &&
                    path_is_within(path, plan->landlock.rules.p[i].path))
                        return true;
        return false;
}

/* The object of a call: by path (an O_PATH descriptor), or a copy of the caller's own. */
struct object {
        int fd;
        bool by_path;
        char path[PATH_MAX];
};

static void object_done(struct object *object) {
        close_fd(&object->fd);
}

static int object_judge(struct watched *watched, const char *what, struct object *object) {
        const bool nameless = object->path[0] != '/' || strncmp(object->path, "/memfd:", 7) == 0;

        if (nameless || may_write(watched->watcher->plan, object->path))
                return 0;
        watched_refused_file(watched, what, object->path);
        return -EPERM;
}

static int object_by_number(struct watched *watched, int number, const char *what, struct object *ret) {
        char link[32];

        ret->by_path = false;
        ret->fd = tracee_take(&watched->tracee, number, &(struct tracee_bytes){ 0 });
        if (ret->fd < 0)
                return ret->fd;

        snprintf(link, sizeof link, "/proc/self/fd/%d", ret->fd);
        ssize_t n = readlink(link, ret->path, sizeof ret->path - 1);
        if (n <= 0)
                return -EPERM;

        ret->path[n] = '\0';
        return object_judge(watched, what, ret);
}

static int object_by_path(struct watched *watched, int dirfd, uint64_t address, bool follow, const char *what,
                          struct object *ret) {
        char path[PATH_MAX];
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };

        int r = tracee_open(&watched->tracee);
        if (r == 0)
                r = tracee_read_path(&watched->tracee, address, path, sizeof path);
        if (r == 0)
                r = walk(&watched->tracee, dirfd, path, follow ? WALK_FOLLOW : WALK_NOFOLLOW, &place);
        if (r < 0)
                return r;
        if (place.object < 0)
                return -ENOENT;

        ret->by_path = true;
        ret->fd = take_fd(&place.object);
        memcpy(ret->path, place.path, strlen(place.path) + 1);

        return object_judge(watched, what, ret);
}

/* Where the arguments of a call are; -1: it has none. */
struct shape {
        int nr;
        int (*change)(struct watched *w, const struct object *o, const struct shape *s);
        const char *what;
        int8_t dirfd, path, number, flags; /* of the object */
        int8_t first;                      /* of what is changed */
        bool link;                         /* a link itself, without any flag */
};

static int attributes_done(long r) {
        if (r < 0)
                return -errno;

        return 0;
}

static int change_mode(struct watched *watched, const struct object *object, const struct shape *shape) {
        mode_t mode = (mode_t)watched->args[shape->first];

        if (!object->by_path)
                return attributes_done(fchmod(object->fd, mode));
        return attributes_done(syscall(SYS_fchmodat2, object->fd, "", mode, AT_EMPTY_PATH));
}

static int change_owner(struct watched *watched, const struct object *object, const struct shape *shape) {
        uid_t uid = (uid_t)watched->args[shape->first];
        gid_t gid = (gid_t)watched->args[shape->first + 1];

        return attributes_done(fchownat(object->fd, "", uid, gid, AT_EMPTY_PATH));
}

static int set_times(const struct object *object, const struct timespec *times) {
        return attributes_done(syscall(SYS_utimensat, object->fd, "", times, AT_EMPTY_PATH));
}

static int change_times(struct watched *watched, const struct object *object, const struct shape *shape) {
        struct timespec times[2];

        if (watched->args[shape->first] == 0)
                return set_times(object, NULL);

        int r = watched_read(watched, watched->args[shape->first], times, sizeof times);
        if (r < 0)
                return r;

        return set_times(object, times);
}

/* The older calls, with microseconds or seconds. */
__attribute__((unused)) static int change_times_us(struct watched *watched, const struct object *object,
                                                   const struct shape *shape) {
        struct timeval old[2];

        if (watched->args[shape->first] == 0)
                return set_times(object, NULL);

        int r = watched_read(watched, watched->args[shape->first], old, sizeof old);
        if (r < 0)
                return r;

        const struct timespec times[2] = { { old[0].tv_sec, old[0].tv_usec * 1000 },
                                           { old[1].tv_sec, old[1].tv_usec * 1000 } };
        return set_times(object, times);
}

__attribute__((unused)) static int change_times_s(struct watched *watched, const struct object *object,
                                                  const struct shape *shape) {
        long old[2];

        if (watched->args[shape->first] == 0)
                return set_times(object, NULL);

        int r = watched_read(watched, watched->args[shape->first], old, sizeof old);
        if (r < 0)
                return r;

        const struct timespec times[2] = { { old[0], 0 }, { old[1], 0 } };
        return set_times(object, times);
}

/* Attributes of what is held, by its link: of a symbolic link there are none that a user may set. */
static int attribute_place(const struct object *object, char place[static 32]) {
        struct stat st;

        if (fstat(object->fd, &st) < 0 || S_ISLNK(st.st_mode))
                return -EPERM;
        snprintf(place, 32, "/proc/self/fd/%d", object->fd);
        return 0;
}

static int change_attribute(struct watched *watched, const struct object *object, const struct shape *shape) {
        char place[32], name[NAME_BYTES];
        size_t n = (size_t)watched->args[shape->first + 2];
        int r = attribute_place(object, place);

        if (r == 0)
                r = tracee_read_path(&watched->tracee, watched->args[shape->first], name, sizeof name);
        if (r == -ENAMETOOLONG)
                return -ERANGE;
        if (r < 0)
                return r;
        if (n > VALUE_MAX)
                return -E2BIG;

        cleanup(free_ptr) char *value = malloc(n ? n : 1);
        if (!value)
                return -ENOMEM;

        r = watched_read(watched, watched->args[shape->first + 1], value, n);
        if (r < 0)
                return r;

        return attributes_done(setxattr(place, name, value, n, (int)watched->args[shape->first + 3]));
}

static int remove_attribute(struct watched *watched, const struct object *object, const struct shape *shape) {
        char place[32], name[NAME_BYTES];
        int r = attribute_place(object, place);

        if (r == 0)
                r = tracee_read_path(&watched->tracee, watched->args[shape->first], name, sizeof name);
        if (r == -ENAMETOOLONG)
                return -ERANGE;
        if (r < 0)
                return r;

        return attributes_done(removexattr(place, name));
}

static const struct shape shapes[] = {
#ifdef SYS_chmod
        { SYS_chmod, change_mode, "chmod", -1, 0, -1, -1, 1, false },
        { SYS_chown, change_owner, "chown", -1, 0, -1, -1, 1, false },
        { SYS_lchown, change_owner, "chown", -1, 0, -1, -1, 1, true },
        { SYS_utime, change_times_s, "utimes", -1, 0, -1, -1, 1, false },
        { SYS_utimes, change_times_us, "utimes", -1, 0, -1, -1, 1, false },
        { SYS_futimesat, change_times_us, "utimes", 0, 1, 0, -1, 2, false },
#endif
        { SYS_fchmod, change_mode, "chmod", -1, -1, 0, -1, 1, false },
        { SYS_fchmodat, change_mode, "chmod", 0, 1, -1, -1, 2, false },
        { SYS_fchmodat2, change_mode, "chmod", 0, 1, 0, 3, 2, false },
        { SYS_fchown, change_owner, "chown", -1, -1, 0, -1, 1, false },
        { SYS_fchownat, change_owner, "chown", 0, 1, 0, 4, 2, false },
        { SYS_utimensat, change_times, "utimes", 0, 1, 0, 3, 2, false },
        { SYS_setxattr, change_attribute, "setxattr", -1, 0, -1, -1, 1, false },
        { SYS_lsetxattr, change_attribute, "setxattr", -1, 0, -1, -1, 1, true },
        { SYS_fsetxattr, change_attribute, "setxattr", -1, -1, 0, -1, 1, false },
        { SYS_removexattr, remove_attribute, "removexattr", -1, 0, -1, -1, 1, false },
        { SYS_lremovexattr, remove_attribute, "removexattr", -1, 0, -1, -1, 1, true },
        { SYS_fremovexattr, remove_attribute, "removexattr", -1, -1, 0, -1, 1, false },
};

static const struct shape *shape_of(int nr) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                if (shapes[i].nr == nr)
                        return &shapes[i];
        return NULL;
}

/* A call that takes a path may be about its descriptor instead: with an empty path, or with none. */
static bool is_about_number(struct watched *watched, const struct shape *shape, int flags) {
        char first = 1;

        if (shape->path < 0)
                return true;
        if (shape->number < 0)
                return false;
        if (watched->args[shape->path] == 0)
                return true;

        return (flags & AT_EMPTY_PATH) && watched_read(watched, watched->args[shape->path], &first, 1) == 0 && !first;
}

static int op_attribute(struct watched *watched) {
        const struct shape *shape = shape_of(watched->nr);
        cleanup(object_done) struct object object = { .fd = -1 };
        int r;

        if (!shape)
                return -ENOSYS;

        int flags = shape->flags >= 0 ? (int)watched->args[shape->flags] : 0;
        if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
                return -EINVAL;

        if (is_about_number(watched, shape, flags))
                r = object_by_number(watched, (int)watched->args[shape->number], shape->what, &object);
        else
                r = object_by_path(watched, shape->dirfd >= 0 ? (int)watched->args[shape->dirfd] : AT_FDCWD,
                                   watched->args[shape->path], !shape->link && !(flags & AT_SYMLINK_NOFOLLOW),
                                   shape->what, &object);

        if (r < 0)
                return r;

        return shape->change(watched, &object, shape);
}

/* --- scheduling --- */

/* Whether the number is a thread of the caller's process. */
static bool is_own_thread(struct watched *watched, int64_t number) {
        char path[64];

        if (tracee_open(&watched->tracee) < 0 || number <= 0)
                return false;
        snprintf(path, sizeof path, "/proc/%d/task/%lld", watched->tracee.tgid, (long long)number);
        return access(path, F_OK) == 0 && tracee_waits(&watched->tracee);
}

/* The filter lets 0, which is the caller, pass. */
static int op_sched(struct watched *watched) {
        if (!is_own_thread(watched, (int32_t)watched->args[0]))
                return -EPERM;

        return WATCHED_CONTINUE;
}

/* setpriority() and ioprio_set(): a kind, and whom it names. The numbers of "process" and "group" differ. */
static int op_priority(struct watched *watched, int process, int group) {
        int kind = (int)watched->args[0];

        if (kind == process && ((int32_t)watched->args[1] == 0 || is_own_thread(watched, (int32_t)watched->args[1])))
                return WATCHED_CONTINUE;
        if (kind == group && (int32_t)watched->args[1] == 0)
                return WATCHED_CONTINUE;

        return -EPERM;
}

static int op_setpriority(struct watched *watched) {
        return op_priority(watched, PRIO_PROCESS, PRIO_PGRP);
}

static int op_ioprio(struct watched *watched) {
        enum { IOPRIO_PROCESS = 1, IOPRIO_PGRP = 2 };
        return op_priority(watched, IOPRIO_PROCESS, IOPRIO_PGRP);
}

const struct watched_op watched_attributes[] = {
#ifdef SYS_chmod
        { SYS_chmod, op_attribute, false },         { SYS_chown, op_attribute, false },
        { SYS_lchown, op_attribute, false },        { SYS_utime, op_attribute, false },
        { SYS_utimes, op_attribute, false },        { SYS_futimesat, op_attribute, false },
#endif
        { SYS_fchmod, op_attribute, false },        { SYS_fchmodat, op_attribute, false },
        { SYS_fchmodat2, op_attribute, false },     { SYS_fchown, op_attribute, false },
        { SYS_fchownat, op_attribute, false },      { SYS_utimensat, op_attribute, false },
        { SYS_setxattr, op_attribute, false },      { SYS_lsetxattr, op_attribute, false },
        { SYS_fsetxattr, op_attribute, false },     { SYS_removexattr, op_attribute, false },
        { SYS_lremovexattr, op_attribute, false },  { SYS_fremovexattr, op_attribute, false },
        { SYS_sched_setaffinity, op_sched, false }, { SYS_sched_setscheduler, op_sched, false },
        { SYS_sched_setparam, op_sched, false },    { SYS_sched_setattr, op_sched, false },
        { SYS_setpriority, op_setpriority, false }, { SYS_ioprio_set, op_ioprio, false },
};
const size_t watched_attributes_n = sizeof watched_attributes / sizeof *watched_attributes;
