/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include "base/bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

void close_fd(int *fd) {
        if (*fd < 0)
                return;
        int saved = errno;
        close(*fd);
        errno = saved;
        *fd = -1;
}

int fd_set_nonblocking(int fd, bool on) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0)
                return -errno;
        int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
        if (wanted == flags || fcntl(fd, F_SETFL, wanted) == 0)
                return 0;

        return -errno;
}

int fd_write_all(int fd, const void *p, size_t n) {
        const char *at = p;

        while (n > 0) {
                ssize_t put = write(fd, at, n);
                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0)
                        return -errno;
                if (put <= 0)
                        return -EIO;

                at += put;
                n -= (size_t)put;
        }

        return 0;
}

int fd_read_exact(int fd, void *p, size_t n) {
        char *at = p;

        while (n > 0) {
                ssize_t got = read(fd, at, n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        return -EPIPE;

                at += got;
                n -= (size_t)got;
        }

        return 0;
}

int fd_read_all(int fd, struct buf *into) {
        for (;;) {
                /* Most files are small; a large one is read in steps that grow with it, or at once into room that is
                 * there already. */
                size_t room = into->max - into->n, step = max_of(into->n, 4096);

                if (into->cap > into->n + step)
                        step = into->cap - into->n;
                if (room < step)
                        step = room;
                char probe;
                if (step && buf_reserve(into, step) < 0)
                        return -ENOMEM;

                /* At the maximum, one more byte tells whether this is the end. */
                ssize_t got = step ? read(fd, into->p + into->n, step) : read(fd, &probe, 1);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        return 0;
                if (!step)
                        return -EMSGSIZE;

                into->n += (size_t)got;
        }
}

int fd_map_sealed(int fd, const char *what, size_t max, struct str *ret, struct err *err) {
        size_t size;
        bool sealed = fd_is_sealed(fd, &size);

        if (!sealed && fcntl(fd, F_GETFD) < 0)
                return err_errno(err, "cannot use %s", what);
        if (!sealed)
                return err_set(err, EPERM, "%s is not sealed: it could change while it is in use", what);
        if (size == 0 || size > max)
                return err_set(err, EMSGSIZE, "%s has %zu bytes, not 1 to %zu", what, size, max);

        void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (mapped == MAP_FAILED)
                return err_errno(err, "cannot map %s", what);

        *ret = str_n(mapped, size);
        return 0;
}

int fd_pair_blocking(int ret[static 2]) {
        int r = fd_pair(ret);
        if (r < 0)
                return r;

        for (size_t i = 0; r == 0 && i < 2; i++)
                r = fd_set_nonblocking(ret[i], false);
        if (r < 0) {
                close(ret[0]);
                close(ret[1]);
        }

        return r;
}
