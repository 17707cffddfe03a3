/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's lock beside a configuration of which the sandbox has a copy. Git makes `config.lock`, writes it, and renames it
 * over `config`. The copy is a mount, which no rename can replace, and a lock in the host's directory would be the
 * host's lock as well: a program that replaces it at the right moment makes the host's git put it in place. So the lock
 * is memory that this process holds, and its renaming writes the copy. No name of it appears anywhere, and nothing else
 * gets that name (judge_change()).
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_MAX = 1 << 20 };

const struct plan_copy_of *copy_of_lock(const struct held *held, const struct place *place) {
        if (held->broker->closed && place->path[0] == '/')
                return closed_copy_by_lock(held->broker->closed, place->path);

        return NULL;
}

int copy_lock_open(struct held *held, const struct plan_copy_of *copy, int flags) {
        int *lock = closed_lock(held->broker->closed, copy);
        cleanup(close_fd) int fd = -1;

        if (*lock >= 0 && (flags & O_EXCL))
                return -EEXIST;
        if (*lock >= 0)
                return -EACCES; /* nobody opens a lock that is another's */

        fd = memfd_create("config.lock", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        if ((flags & O_APPEND) && fcntl(fd, F_SETFL, O_APPEND) < 0)
                return -errno;

        *lock = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (*lock < 0)
                return -errno;

        return broker_give_fd(&held->tracee, &fd, flags & O_CLOEXEC);
}

static int read_lock(int lock, char **ret, size_t *ret_n) {
        struct stat st;

        if (fstat(lock, &st) < 0)
                return -errno;
        if (st.st_size > COPY_MAX)
                return -EFBIG;

        cleanup(free_ptr) char *text = malloc((size_t)st.st_size + 1);
        if (!text)
                return -ENOMEM;

        ssize_t n = pread(lock, text, (size_t)st.st_size, 0);
        if (n < 0)
                return -errno;

        *ret = take_ptr(&text);
        *ret_n = (size_t)n;

        return 0;
}

static int write_copy(struct held *held, const struct plan_copy_of *copy, const char *text, size_t n) {
        cleanup(close_fd) int fd = open(copy->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;

        if (st.st_dev != copy->copy_dev || st.st_ino != copy->copy_ino) {
                held->glob = copy->path; /* the host has put another file there: that one is closed */
                return -EACCES;
        }

        if (fd_write_all(fd, text, n) < 0 || ftruncate(fd, (off_t)n) < 0)
                return -EIO;

        return 0;
}

int copy_lock_rename(struct held *held, const struct plan_copy_of *copy, const struct place *to) {
        int *lock = closed_lock(held->broker->closed, copy);
        cleanup(free_ptr) char *text = NULL;
        size_t n = 0;
        int r;

        if (*lock < 0)
                return -ENOENT;
        if (strcmp(to->path, copy->path) != 0)
                return -EXDEV;

        r = read_lock(*lock, &text, &n);
        if (r == 0)
                r = write_copy(held, copy, text, n);
        if (r == 0)
                close_fd(lock);

        return r;
}

int copy_lock_remove(struct held *held, const struct plan_copy_of *copy) {
        int *lock = closed_lock(held->broker->closed, copy);

        if (*lock < 0)
                return -ENOENT;
        close_fd(lock);
        return 0;
}

bool copy_is_locked(const struct held *held, const struct place *place) {
        const struct plan_copy_of *copy = copy_of_lock(held, place);

        return copy && *closed_lock(held->broker->closed, copy) >= 0;
}
