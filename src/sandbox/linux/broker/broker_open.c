/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open() in its forms. A new file is made with O_EXCL in the directory that is held, so it cannot be an existing one;
 * an existing file is held, judged, and opened through the held descriptor.
 *
 * Devices and /proc are opened by the caller itself where Landlock keeps its own calls from changing files (the plan's
 * PLAN_NATIVE): a terminal becomes the controlling one of its opener, and /proc/self is the process that looks.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_asks.h"
#include "sandbox/linux/broker/broker_marks.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { WAITING_OPENS_MAX = 64, TRIES_MAX = 8 };
enum { OPEN_OTHERWISE = 16 }; /* beside OP_ANSWERED and the like: this way does not lead to an answer */

struct waiting_open {
        struct tracee tracee; /* its id and notify descriptor */
        int object, flags;
};
static int waiting_opens;

static void *open_and_wait(void *arg) {
        struct waiting_open *waiting_open = arg;
        struct fd_link link = link_to(waiting_open->object);
        int fd = open(link.path, waiting_open->flags | O_CLOEXEC);
        int r = fd < 0 ? -errno : broker_give_fd(&waiting_open->tracee, &fd, waiting_open->flags & O_CLOEXEC);
        if (r < 0)
                broker_answer(&waiting_open->tracee, r);

        close_fd(&fd);
        close_fd(&waiting_open->object);
        free(waiting_open);
        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);

        return NULL;
}

/* Opening a FIFO waits for its other end, which may be opened by the next call: not in this thread. */
static int open_in_thread(const struct held *held, struct place *place, int flags) {
        if (__atomic_add_fetch(&waiting_opens, 1, __ATOMIC_RELAXED) > WAITING_OPENS_MAX) {
                __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
                return -ENFILE;
        }

        struct waiting_open *open = malloc(sizeof *open);
        pthread_t thread;

        if (open) {
                *open =
                    (struct waiting_open){ .tracee = held->tracee, .object = take_fd(&place->object), .flags = flags };
                if (pthread_create(&thread, NULL, open_and_wait, open) == 0) {
                        pthread_detach(thread);
                        return OP_ANSWERED;
                }

                close_fd(&open->object);
                free(open);
        }

        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
        return -ENOMEM;
}

/* The kernel hands over no O_PATH descriptor. One that can be read serves the same ends for what may be read anyway;
 * for links, devices and sockets there is none. */
static int open_as_place(struct held *held, const struct stat *st, struct place *place, int flags) {
        if ((flags & O_DIRECTORY) && !S_ISDIR(st->st_mode))
                return -ENOTDIR;
        if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
                return -EOPNOTSUPP;

        cleanup(close_fd) int fd = walk_reopen(place->object, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0)
                return fd;

        return broker_pass_fd(&held->tracee, fd, flags & O_CLOEXEC);
}

static bool is_callers_own(const struct held *held, const struct stat *st, int object) {
        struct statfs fs;

        if (!held->broker->native)
                return false;
        return S_ISCHR(st->st_mode) || (fstatfs(object, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC);
}

/*
 * The caller's memory may hold another path by then. What it opens for writing, its Landlock domain refuses outside of
 * devices and /proc; truncating it does not (confine_landlock_own()). Neither O_RDONLY nor 3, which is for ioctl()
 * alone, counts as writing there, and both truncate. There is nothing to truncate in these places.
 */
static int open_by_caller(int flags) {
        bool writes = (flags & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDWR;

        if ((flags & O_TRUNC) && !writes)
                return -EACCES;
        return OP_CONTINUE;
}

static int open_existing(struct held *held, struct place *place, int flags, mode_t mode) {
        struct stat st;

        if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
                return -EEXIST;
        if (fstat(place->object, &st) < 0)
                return -errno;
        if (place->wants_directory && !S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (flags & O_PATH)
                return open_as_place(held, &st, place, flags);
        if (S_ISLNK(st.st_mode))
                return -ELOOP;
        if ((flags & O_CREAT) && S_ISDIR(st.st_mode))
                return -EISDIR;
        if (is_callers_own(held, &st, place->object))
                return open_by_caller(flags);

        flags &= ~(O_CREAT | O_EXCL | O_NOFOLLOW);
        if (S_ISFIFO(st.st_mode) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR)
                return open_in_thread(held, place, flags);

        cleanup(close_fd) int fd = walk_reopen(place->object, flags | O_CLOEXEC, mode);
        if (fd < 0)
                return fd;

        return broker_give_fd(&held->tracee, &fd, flags & O_CLOEXEC);
}

/* Nobody can run it before its mode changes, and that call is served after this one. So it makes no difference whether
 * the broker closes it shortly before or after the caller goes on. */
static bool can_be_run(mode_t mode) {
        return mode & (S_IXUSR | S_IXGRP | S_IXOTH);
}

/* -EEXIST: it is there after all. */
static int open_new(struct held *held, struct place *place, int flags, mode_t mode) {
        int r;

        if (place->wants_directory)
                return -EISDIR;

        r = judge_new(held, place, S_IFREG);
        if (r < 0)
                return r;

        cleanup(close_fd) int fd = openat(place->dir, place->name, flags | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0)
                return -errno;

        judge_made(held, place, fd);
        if (can_be_run(mode))
                return broker_give_fd(&held->tracee, &fd, flags & O_CLOEXEC);

        return broker_pass_fd(&held->tracee, fd, flags & O_CLOEXEC);
}

static bool opens_for_change(int flags, bool there) {
        if (flags & O_PATH)
                return false;
        return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) || ((flags & O_CREAT) && !there);
}

static int open_found(struct held *held, struct place *place, int flags, mode_t mode) {
        int r = 0;

        held->writes = opens_for_change(flags, place->object >= 0);
        if (place->object < 0) {
                if (!(flags & O_CREAT) || (flags & O_PATH))
                        return -ENOENT;
                return open_new(held, place, flags, mode);
        }

        if (held->writes)
                r = judge_change(held, place);
        else
                r = judge_read(held, place);

        if (r == 0 && held->writes)
                r = judge_object(held, place->object);
        if (r == 0 && held->writes)
                r = judge_parts(held, place);
        if (r == 0 && held->writes)
                r = judge_shared(held, place, flags & O_TRUNC ? SHARING_ENDS_EMPTY : SHARING_ENDS);
        if (r == 0)
                r = judge_marked(held, place->path, flags);
        if (r < 0)
                return r;

        return open_existing(held, place, flags, mode);
}

/*
 * A file or directory that is opened for reading, without a link on its path: the path as written is judged, and the
 * kernel opens the object that has exactly that path at that moment, or fails. Special cases take the other way,
 * OPEN_OTHERWISE.
 *
 * It is checked first because opening a FIFO or a device has effects. Only the host could put one in its place in
 * between (names are changed inside by this thread alone): then the sandbox waits for the host.
 */
static int open_to_read(struct held *held, int dirfd, int flags) {
        char path[PATH_MAX];
        const char *name = path;
        struct stat st;
        int dir, r;

        if (walk_spell(&held->tracee, dirfd, held->path, path) < 0)
                return OPEN_OTHERWISE;

        dir = walk_same_dir(path, &name);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno == ENOENT)
                        r = walk_open_spelled(dir, name, O_PATH | O_CLOEXEC);
                else
                        r = -ELOOP;
                if (r >= 0)
                        close(r); /* it appeared just now */
                if (r != -ENOENT)
                        return OPEN_OTHERWISE;

                memcpy(held->path, path, strlen(path) + 1);
                return -ENOENT;
        }

        if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) || walk_may_be_proc(st.st_dev))
                return OPEN_OTHERWISE;

        r = tracee_confirm(&held->tracee);
        if (r < 0)
                return r;

        if (broker_denies(held->broker->rules, path, false))
                return OPEN_OTHERWISE; /* and there refused, with a report */

        r = judge_marked(held, path, flags);
        if (r < 0)
                return r;

        cleanup(close_fd) int fd = walk_open_spelled(dir, name, flags | O_CLOEXEC);
        if (fd < 0)
                return OPEN_OTHERWISE;

        memcpy(held->path, path, strlen(path) + 1);
        return broker_pass_fd(&held->tracee, fd, flags & O_CLOEXEC);
}

/* Only what openat2() takes, and nothing that makes or changes something. */
static bool only_reads(int flags) {
        /* O_NOFOLLOW, and the kernel's O_LARGEFILE, which the C library may have as 0: one is the one on x86, the other
         * on aarch64. */
        const int either = 0100000 | 0400000;
        const int harmless = O_CLOEXEC | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_NOATIME | either;

        return (flags & ~harmless) == O_RDONLY;
}

/* Something with that name is in the directory already. A file is judged and opened from there. */
static int open_there(struct held *held, struct place *place, int flags, mode_t mode) {
        struct stat st;

        place->object = openat(place->dir, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (place->object < 0) {
                if (errno == ENOENT && !(flags & O_CREAT))
                        return -ENOENT;
                return OPEN_OTHERWISE;
        }
        if (fstat(place->object, &st) < 0 || !S_ISREG(st.st_mode))
                return OPEN_OTHERWISE;

        place->parent = false;
        return open_found(held, place, flags, mode);
}

static int open_or_make(struct held *held, struct place *place, int flags, mode_t mode) {
        const struct plan_copy_of *copy;
        int r;

        if (!(flags & O_CREAT))
                return open_there(held, place, flags, mode);

        copy = copy_of_lock(held, place);
        if (copy)
                return copy_lock_open(held, copy, flags);

        r = open_new(held, place, flags, mode);
        if (flags & O_EXCL)
                return r;
        if (r == -EEXIST)
                return open_there(held, place, flags, mode);

        /* Refused as something new; what is there may be another matter (a link that leads elsewhere). */
        if (r == -EACCES && held->glob && faccessat(place->dir, place->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                held->glob = NULL;
                return OPEN_OTHERWISE;
        }

        return r;
}

/* For changing: by its directory, so that the usual case of something new costs no look at what is there. */
static int open_to_change(struct held *held, int dirfd, int flags, mode_t mode) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r;

        r = walk(&held->tracee, dirfd, held->path, WALK_PARENT, &place);
        if (r < 0)
                return r;
        if ((flags & O_CREAT) && place.wants_directory && place.name[0])
                return -EISDIR; /* as the kernel says, whatever is there */
        if (!place.parent || place.wants_directory)
                return OPEN_OTHERWISE;

        held->writes = true;
        r = open_or_make(held, &place, flags, mode);
        if (r != OPEN_OTHERWISE)
                memcpy(held->path, place.path, strlen(place.path) + 1);

        return r;
}

/* The usual cases, or OPEN_OTHERWISE. */
static int open_quickly(struct held *held, int dirfd, int flags, mode_t mode) {
        if (only_reads(flags))
                return open_to_read(held, dirfd, flags);
        if ((flags & (O_PATH | O_DIRECTORY)) || !opens_for_change(flags, false))
                return OPEN_OTHERWISE;
        return open_to_change(held, dirfd, flags, mode);
}

static int open_once(struct held *held, int dirfd, int flags, mode_t mode) {
        bool nofollow = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        char asked[PATH_MAX];
        int r;

        r = walk(&held->tracee, dirfd, held->path, nofollow ? WALK_NOFOLLOW : WALK_FOLLOW, &place);
        if (r < 0)
                return r;

        memcpy(asked, held->path, strlen(held->path) + 1);
        memcpy(held->path, place.path, strlen(place.path) + 1);
        r = open_found(held, &place, flags, mode);
        if (r != -EEXIST || (flags & O_EXCL))
                return r;

        memcpy(held->path, asked, strlen(asked) + 1);
        return OPEN_OTHERWISE;
}

/* A name that comes and goes while it is looked at is looked at again. */
static int open_path(struct held *held, int dirfd, int flags, mode_t mode) {
        int r;

        mode &= 07777 & ~held->tracee.umask;
        r = open_quickly(held, dirfd, flags, mode);
        for (int i = 0; i < TRIES_MAX && r == OPEN_OTHERWISE; i++)
                r = open_once(held, dirfd, flags, mode);
        if (r == OPEN_OTHERWISE)
                return -EAGAIN;

        return r;
}

static int open_or_ask(struct held *held, int dirfd, int flags, mode_t mode) {
        char text[PATH_MAX];
        int r;

        memcpy(text, held->path, strlen(held->path) + 1);
        r = open_path(held, dirfd, flags, mode);

        if (r >= 0)
                return r;

        return asks_consider(held, dirfd, text, flags, r);
}

static int open_at(struct held *held, int dirfd, __u64 address, int flags, mode_t mode) {
        int r = tracee_copy_path(&held->tracee, address, held->path, sizeof held->path);

        if (r < 0) {
                held->path[0] = '\0';
                return r;
        }
        if (held->broker->asks)
                return open_or_ask(held, dirfd, flags, mode);

        return open_path(held, dirfd, flags, mode);
}

int op_openat(struct held *held) {
        return open_at(held, (int)held->args[0], held->args[1], (int)held->args[2], (mode_t)held->args[3]);
}

/* Its resolve flags would have to be kept as well; programs fall back to openat. Nor is it left to the caller: its
 * flags are in memory too. */
int op_openat2(struct held *held) {
        struct open_how how = { 0 };
        int r;

        if (held->args[3] < sizeof how || held->args[3] > 4096) {
                if (held->args[3] < sizeof how)
                        return -EINVAL;
                return -E2BIG;
        }

        r = tracee_read(&held->tracee, held->args[2], &how, sizeof how);
        if (r < 0)
                return r;
        if (how.resolve || (how.flags & O_PATH) || how.flags > INT_MAX || how.mode > 07777)
                return -ENOSYS;

        r = open_at(held, (int)held->args[0], held->args[1], (int)how.flags, (mode_t)how.mode);
        return r == OP_CONTINUE ? -ENOSYS : r;
}

#ifdef SYS_open
int op_open(struct held *held) {
        return open_at(held, AT_FDCWD, held->args[0], (int)held->args[1], (mode_t)held->args[2]);
}
int op_creat(struct held *held) {
        return open_at(held, AT_FDCWD, held->args[0], O_CREAT | O_WRONLY | O_TRUNC, (mode_t)held->args[1]);
}
#endif
