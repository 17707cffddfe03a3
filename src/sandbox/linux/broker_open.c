/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open() in its forms. What is new is made with O_EXCL in the directory that is held, so nothing that is there already
 * can be meant; what is there is held, judged, and opened by what is held.
 *
 * Devices and /proc are opened by the caller itself where Landlock keeps its own calls from changing files (the plan's
 * PLAN_NATIVE): a terminal becomes the controlling one of whoever opens it, and /proc/self is whoever looks.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker_ops.h"

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
enum { OPEN_THERE = 16 }; /* beside OP_ANSWERED and the like: something has that name already */

struct waiting_open {
        struct tracee tracee; /* its id and notify descriptor */
        int object, flags;
};
static int waiting_opens;

static void *open_and_wait(void *arg) {
        struct waiting_open *w = arg;
        struct fd_link link = link_to(w->object);
        int fd = open(link.path, w->flags | O_CLOEXEC);
        int r = fd < 0 ? -errno : broker_pass_fd(&w->tracee, fd, w->flags & O_CLOEXEC);
        if (r < 0)
                broker_answer(&w->tracee, r);
        close_fd(&fd);
        close_fd(&w->object);
        free(w);
        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
        return NULL;
}

/* Opening a FIFO waits for its other end, which may be opened by the next call: not in this thread. */
static int open_in_thread(const struct held *h, struct place *p, int flags) {
        if (__atomic_add_fetch(&waiting_opens, 1, __ATOMIC_RELAXED) > WAITING_OPENS_MAX) {
                __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
                return -ENFILE;
        }
        struct waiting_open *w = malloc(sizeof *w);
        pthread_t thread;
        if (w) {
                *w = (struct waiting_open){ .tracee = h->tracee, .object = take_fd(&p->object), .flags = flags };
                if (pthread_create(&thread, NULL, open_and_wait, w) == 0) {
                        pthread_detach(thread);
                        return OP_ANSWERED;
                }
                close_fd(&w->object);
                free(w);
        }
        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
        return -ENOMEM;
}

/* The kernel hands over no O_PATH descriptor. One that can be read serves the same ends for what may be read anyway;
 * for links, devices and sockets there is none. */
static int open_as_place(struct held *h, const struct stat *st, struct place *p, int flags) {
        if ((flags & O_DIRECTORY) && !S_ISDIR(st->st_mode))
                return -ENOTDIR;
        if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
                return -EOPNOTSUPP;
        cleanup(close_fd) int fd = walk_reopen(p->object, O_RDONLY | O_CLOEXEC, 0);
        return fd < 0 ? fd : broker_pass_fd(&h->tracee, fd, flags & O_CLOEXEC);
}

static bool is_callers_own(const struct held *h, const struct stat *st, int object) {
        struct statfs fs;

        if (!h->broker->native)
                return false;
        return S_ISCHR(st->st_mode) || (fstatfs(object, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC);
}

static int open_existing(struct held *h, struct place *p, int flags, mode_t mode) {
        struct stat st;

        if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
                return -EEXIST;
        if (fstat(p->object, &st) < 0)
                return -errno;
        if (p->wants_directory && !S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (flags & O_PATH)
                return open_as_place(h, &st, p, flags);
        if (S_ISLNK(st.st_mode))
                return -ELOOP;
        if ((flags & O_CREAT) && S_ISDIR(st.st_mode))
                return -EISDIR;
        if (is_callers_own(h, &st, p->object))
                return OP_CONTINUE;
        flags &= ~(O_CREAT | O_EXCL | O_NOFOLLOW);
        if (S_ISFIFO(st.st_mode) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR)
                return open_in_thread(h, p, flags);
        cleanup(close_fd) int fd = walk_reopen(p->object, flags | O_CLOEXEC, mode);
        return fd < 0 ? fd : broker_give_fd(&h->tracee, &fd, flags & O_CLOEXEC);
}

/* -EEXIST: it is there after all. */
static int open_new(struct held *h, struct place *p, int flags, mode_t mode) {
        int r;

        if (p->wants_directory)
                return -EISDIR;
        r = judge_new(h, p, S_IFREG);
        if (r < 0)
                return r;
        cleanup(close_fd) int fd = openat(p->dir, p->name, flags | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0)
                return -errno;
        judge_made(h, p, fd);
        return broker_give_fd(&h->tracee, &fd, flags & O_CLOEXEC);
}

static bool opens_for_change(int flags, bool there) {
        if (flags & O_PATH)
                return false;
        return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) || ((flags & O_CREAT) && !there);
}

static int open_found(struct held *h, struct place *p, int flags, mode_t mode) {
        int r = 0;

        h->writes = opens_for_change(flags, p->object >= 0);
        if (p->object < 0)
                return !(flags & O_CREAT) || (flags & O_PATH) ? -ENOENT : open_new(h, p, flags, mode);

        if (h->writes)
                r = judge_change(h, p);
        else
                r = judge_read(h, p);
        if (r == 0 && h->writes)
                r = judge_object(h, p->object);
        if (r == 0 && h->writes)
                r = judge_repository(h, p);
        if (r == 0 && h->writes)
                r = judge_shared(h, p, flags & O_TRUNC ? SHARING_ENDS_EMPTY : SHARING_ENDS);
        return r < 0 ? r : open_existing(h, p, flags, mode);
}

/* The usual case of something new costs no look at what is there. */
static int open_quickly(struct held *h, int dirfd, int flags, mode_t mode) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r;

        r = walk(&h->tracee, dirfd, h->path, WALK_PARENT, &p);
        if (r < 0)
                return r;
        if (!p.parent || p.wants_directory)
                return OPEN_THERE;

        char asked[PATH_MAX];
        memcpy(asked, h->path, strlen(h->path) + 1);
        memcpy(h->path, p.path, strlen(p.path) + 1);
        h->writes = true;

        const struct plan_copy_of *copy = copy_of_lock(h, &p);
        if (copy)
                return copy_lock_open(h, copy, flags);

        r = open_new(h, &p, flags, mode);
        if (r == -EEXIST && !(flags & O_EXCL)) {
                memcpy(h->path, asked, strlen(asked) + 1);
                return OPEN_THERE;
        }
        /* Refused as something new; what is there may be another matter (a link that leads elsewhere). */
        if (r == -EACCES && h->glob && !(flags & O_EXCL) && faccessat(p.dir, p.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                memcpy(h->path, asked, strlen(asked) + 1);
                h->glob = NULL;
                return OPEN_THERE;
        }
        return r;
}

static int open_once(struct held *h, int dirfd, int flags, mode_t mode) {
        bool nofollow = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
        bool temporary = (flags & O_TMPFILE) == O_TMPFILE;
        int r;

        if ((flags & O_CREAT) && !(flags & (O_PATH | O_DIRECTORY)) && !temporary) {
                r = open_quickly(h, dirfd, flags, mode);
                if (r != OPEN_THERE)
                        return r;
        }

        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        r = walk(&h->tracee, dirfd, h->path, nofollow ? WALK_NOFOLLOW : WALK_FOLLOW, &p);
        if (r < 0)
                return r;

        char asked[PATH_MAX];
        memcpy(asked, h->path, strlen(h->path) + 1);
        memcpy(h->path, p.path, strlen(p.path) + 1);
        r = open_found(h, &p, flags, mode);
        if (r != -EEXIST || (flags & O_EXCL))
                return r;
        memcpy(h->path, asked, strlen(asked) + 1);
        return OPEN_THERE;
}

/* A name that comes and goes while it is looked at is looked at again. */
static int open_path(struct held *h, int dirfd, int flags, mode_t mode) {
        int r = OPEN_THERE;

        mode &= 07777 & ~h->tracee.umask;
        for (int i = 0; i < TRIES_MAX && r == OPEN_THERE; i++)
                r = open_once(h, dirfd, flags, mode);
        return r == OPEN_THERE ? -EAGAIN : r;
}

static int open_at(struct held *h, int dirfd, __u64 address, int flags, mode_t mode) {
        int r = tracee_read_path(&h->tracee, address, h->path, sizeof h->path);

        if (r < 0) {
                h->path[0] = '\0';
                return r;
        }
        return open_path(h, dirfd, flags, mode);
}

int op_openat(struct held *h) {
        return open_at(h, (int)h->args[0], h->args[1], (int)h->args[2], (mode_t)h->args[3]);
}

/* Its resolve flags would have to be kept as well; programs fall back to openat. */
int op_openat2(struct held *h) {
        struct open_how how = { 0 };
        int r;

        if (h->args[3] < sizeof how || h->args[3] > 4096)
                return h->args[3] < sizeof how ? -EINVAL : -E2BIG;
        r = tracee_read(&h->tracee, h->args[2], &how, sizeof how);
        if (r < 0)
                return r;
        if (how.resolve || (how.flags & O_PATH) || how.flags > INT_MAX || how.mode > 07777)
                return -ENOSYS;
        return open_at(h, (int)h->args[0], h->args[1], (int)how.flags, (mode_t)how.mode);
}

#ifdef SYS_open
int op_open(struct held *h) {
        return open_at(h, AT_FDCWD, h->args[0], (int)h->args[1], (mode_t)h->args[2]);
}
int op_creat(struct held *h) {
        return open_at(h, AT_FDCWD, h->args[0], O_CREAT | O_WRONLY | O_TRUNC, (mode_t)h->args[1]);
}
#endif
