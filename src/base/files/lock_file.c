/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/lock_file.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int lock_file_new(int at, const char *path, struct str text, int *ret_fd) {
        cleanup(free_ptr) char *fresh = str_format("%s.new", path);
        if (!fresh)
                return -ENOMEM;

        cleanup(close_fd) int fd = openat(at, fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;

        int r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : fd_write_all(fd, text.p, text.n);
        if (r == 0 && renameat(at, fresh, at, path) < 0)
                r = -errno;
        if (r < 0) {
                (void)unlinkat(at, fresh, 0);
                return r;
        }

        *ret_fd = take_fd(&fd);
        return 0;
}
