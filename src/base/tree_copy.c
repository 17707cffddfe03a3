/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, ENTRIES_MAX = 20000 };
#define BYTES_MAX ((uint64_t)256 << 20)

struct copying {
        unsigned entries;
        uint64_t bytes;
};

static int copy_entry(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                      unsigned depth);

static int copy_file(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to, mode_t mode) {
        cleanup(close_fd) int source = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        cleanup(close_fd) int target = -1;
        char block[65536];
        struct stat st;

        if (source < 0 || fstat(source, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return 0;

        target = openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (target < 0)
                return -errno;

        for (;;) {
                ssize_t n = read(source, block, sizeof block);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;

                copying->bytes += (uint64_t)n;
                if (copying->bytes > BYTES_MAX)
                        return -E2BIG;

                int r = fd_write_all(target, block, (size_t)n);
                if (r < 0)
                        return r;
        }

        return fchmod(target, (mode & 0777) | 0600) < 0 ? -errno : 0;
}

static int copy_link(int from_fd, const char *from, int to_fd, const char *to) {
        char text[PATH_MAX];
        ssize_t n = readlinkat(from_fd, from, text, sizeof text - 1);

        if (n < 0)
                return -errno;
        text[n] = '\0';
        return symlinkat(text, to_fd, to) < 0 ? -errno : 0;
}

static int copy_inside(struct copying *copying, int source, int target, unsigned depth) {
        int copy = openat(source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);

        if (!dir) {
                r = -errno;
                close_fd(&copy);
                return r;
        }

        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = copy_entry(copying, source, entry->d_name, target, entry->d_name, depth + 1);

        closedir(dir);
        return r;
}

static int copy_directory(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                          mode_t mode, unsigned depth) {
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        cleanup(close_fd) int source = openat(from_fd, from, flags);
        cleanup(close_fd) int target = -1;

        if (source < 0 || mkdirat(to_fd, to, 0700) < 0)
                return -errno;

        target = openat(to_fd, to, flags);
        if (target < 0)
                return -errno;

        int r = copy_inside(copying, source, target, depth);
        return r == 0 && fchmod(target, (mode & 0777) | 0700) < 0 ? -errno : r;
}

static int copy_entry(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                      unsigned depth) {
        struct stat st;

        if (depth > DEPTH_MAX || ++copying->entries > ENTRIES_MAX)
                return -E2BIG;
        if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return copy_directory(copying, from_fd, from, to_fd, to, st.st_mode, depth);
        if (S_ISLNK(st.st_mode))
                return copy_link(from_fd, from, to_fd, to);

        return S_ISREG(st.st_mode) ? copy_file(copying, from_fd, from, to_fd, to, st.st_mode) : 0;
}

int tree_copy(int from_fd, const char *from, int to_fd, const char *to) {
        struct copying copying = { 0 };
        int r = copy_entry(&copying, from_fd, from, to_fd, to, 0);

        if (r < 0 && r != -EEXIST)
                (void)tree_remove(to_fd, to);
        return r;
}
