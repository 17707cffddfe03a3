/* SPDX-License-Identifier: Apache-2.0 */
/* macOS has no openat2. */
#include "base/paths/path.h"
#include "base/paths/path_steps.h"

#include <errno.h>
#include <fcntl.h>

int path_open_at(int directory_fd, const char *path, int flags, mode_t mode, unsigned resolve) {
        if (resolve)
                return path_open_steps(directory_fd, path, flags, mode, resolve);

        int fd = openat(directory_fd, path, flags | O_CLOEXEC, mode);
        return fd < 0 ? -errno : fd;
}
