/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/path_steps.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A link is -ELOOP, as openat2 says it, also where a directory was wanted; otherwise the code is as it was. */
static int open_component(int at, const char *name, int flags, mode_t mode) {
        int fd = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0)
                return fd;
        int code = errno;
        struct stat st;
        bool link = code == ENOTDIR && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        if (link)
                return -ELOOP;

        return -code;
}

static int open_last(int at, const char *name, int flags, mode_t mode) {
        cleanup(close_fd) int fd = open_component(at, name, flags, mode);
        struct stat st;

        if (fd < 0)
                return fd;

        /* O_PATH alone would give the link itself. */
        if ((flags & O_PATH) && !(flags & O_NOFOLLOW) && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode))
                return -ELOOP;

        return take_fd(&fd);
}

int path_open_steps(int directory_fd, const char *path, int flags, mode_t mode, unsigned resolve) {
        bool beneath = (resolve & PATH_BENEATH) != 0, absolute = path[0] == '/';
        struct str rest = str_of(path), part;
        if (rest.n == 0)
                return -ENOENT;
        if (absolute && beneath)
                return -EXDEV;

        cleanup(close_fd) int at = openat(directory_fd, absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (at < 0)
                return -errno;
        if (rest.p[rest.n - 1] == '/')
                flags |= O_DIRECTORY;

        while (str_split(&rest, '/', &part)) {
                while (rest.n > 0 && rest.p[0] == '/')
                        rest = str_skip(rest, 1);

                char name[NAME_MAX + 1];
                if (part.n == 0 || (str_is(part, ".") && rest.n > 0))
                        continue;
                if (str_is(part, "..") && beneath)
                        return -EXDEV;
                if (part.n > NAME_MAX)
                        return -ENAMETOOLONG;

                memcpy(name, part.p, part.n);
                name[part.n] = '\0';
                if (rest.n == 0)
                        return open_last(at, name, flags, mode);

                int next = open_component(at, name, O_PATH | O_DIRECTORY, 0);
                if (next < 0)
                        return next;

                close_fd(&at);
                at = next;
        }

        return open_last(at, ".", flags, mode);
}
