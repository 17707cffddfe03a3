/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 512 };

static int remove_at(int parent, const char *name, int depth);

/* Takes the descriptor. */
static int empty_dir(int fd, int depth) {
        DIR *dir = fdopendir(fd);
        if (!dir) {
                int r = -errno;
                close(fd);
                return r;
        }
        int r = 0;
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = remove_at(dirfd(dir), entry->d_name, depth + 1);
        closedir(dir);
        return r;
}

static int open_dir(int parent, const char *name) {
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int fd = openat(parent, name, flags);
        /* Closed by its owner, who is us: opened again after its mode is repaired, never through a link. */
        if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
                fd = openat(parent, name, flags);
        return fd < 0 ? -errno : fd;
}

static int remove_at(int parent, const char *name, int depth) {
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return 0;
        if (depth >= DEPTH_MAX)
                return -ELOOP;
        int fd = open_dir(parent, name);
        int r = fd < 0 ? fd : empty_dir(fd, depth);
        if (r < 0)
                return r;
        return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int tree_remove(int parent_fd, const char *name) {
        return remove_at(parent_fd, name, 0);
}
