/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/path.h"
#include "base/paths/path_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

int path_open_at(int directory_fd, const char *path, int flags, mode_t mode, unsigned resolve) {
        static atomic_bool missing;
        bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
        struct open_how how = { .flags = (unsigned)(flags | O_CLOEXEC), .mode = creates ? mode : 0 };

        how.resolve = RESOLVE_NO_MAGICLINKS;
        if (resolve & PATH_BENEATH)
                how.resolve |= RESOLVE_BENEATH;
        if (resolve & PATH_NO_SYMLINKS)
                how.resolve |= RESOLVE_NO_SYMLINKS;

        /* -EAGAIN: something was renamed on the way, so that the kernel could not be sure. */
        for (int tries = 0; tries < 32 && !missing; tries++) {
                int fd = (int)syscall(SYS_openat2, directory_fd, path, &how, sizeof how);
                if (fd >= 0)
                        return fd;
                if (errno == EPERM) /* a filter below us, or a real refusal: the slow way tells */
                        break;

                if (errno == ENOSYS)
                        missing = true;
                else if (errno != EAGAIN || tries == 31)
                        return -errno;
        }

        return path_open_steps(directory_fd, path, flags, mode, resolve);
}
