/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/file_copy.h"
#include "base/files/tree.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A level takes three descriptors, and a process may have 1,024. */
enum { DEPTH_MAX = 64, DEPTH_WHOLE_MAX = 256, ENTRIES_MAX = 20000 };
#define BYTES_MAX ((uint64_t)256 << 20)

struct copying {
        unsigned entries, entries_max, depth_max;
        uint64_t bytes, bytes_max;
        bool made; /* the topmost entry: until then whatever has its name is somebody else's */
        file_progress *on_bytes;
        void *arg;
};

static int copy_entry(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                      unsigned depth);

/* As long as the file was at the beginning, since somebody may go on appending. For the bound holes count like data, as
 * not every file system has them. */
static int copy_content(struct copying *copying, int source, int target, uint64_t size) {
        if (size > copying->bytes_max - copying->bytes)
                return -E2BIG;

        copying->bytes += size;
        return file_copy_content(source, target, size, copying->on_bytes, copying->arg);
}

static int copy_file(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to, mode_t mode) {
        cleanup(close_fd) int source = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        cleanup(close_fd) int target = -1;
        struct stat st;

        if (source < 0 || fstat(source, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return 0;

        target = openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (target < 0)
                return -errno;
        copying->made = true;

        int r = copy_content(copying, source, target, (uint64_t)st.st_size);
        if (r < 0)
                return r;

        if (fchmod(target, (mode & 0777) | 0600) < 0)
                return -errno;

        return 0;
}

static int copy_link(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to) {
        char text[PATH_MAX];
        ssize_t n = readlinkat(from_fd, from, text, sizeof text - 1);

        if (n < 0)
                return -errno;
        text[n] = '\0';
        if (symlinkat(text, to_fd, to) < 0)
                return -errno;

        copying->made = true;
        return 0;
}

static int copy_inside(struct copying *copying, int source, int target, unsigned depth) {
        int copy = openat(source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);

        if (!dir) {
                r = -errno;
                close_fd(&copy);
                return r;
        }

        while (r == 0) {
                errno = 0;
                const struct dirent *entry = readdir(dir);
                if (!entry) {
                        r = -errno; /* 0: that was all */
                        break;
                }

                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = copy_entry(copying, source, entry->d_name, target, entry->d_name, depth + 1);
        }

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
        copying->made = true;

        target = openat(to_fd, to, flags);
        if (target < 0)
                return -errno;

        int r = copy_inside(copying, source, target, depth);
        if (r == 0 && fchmod(target, (mode & 0777) | 0700) < 0)
                return -errno;

        return r;
}

static int copy_entry(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                      unsigned depth) {
        struct stat st;

        if (depth > copying->depth_max || ++copying->entries > copying->entries_max)
                return -E2BIG;
        if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return copy_directory(copying, from_fd, from, to_fd, to, st.st_mode, depth);
        if (S_ISLNK(st.st_mode))
                return copy_link(copying, from_fd, from, to_fd, to);

        if (S_ISREG(st.st_mode))
                return copy_file(copying, from_fd, from, to_fd, to, st.st_mode);

        return 0;
}

static int copy_all(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to) {
        int r = copy_entry(copying, from_fd, from, to_fd, to, 0);

        if (r < 0 && copying->made)
                (void)tree_remove(to_fd, to);
        return r;
}

int tree_copy(int from_fd, const char *from, int to_fd, const char *to) {
        struct copying copying = { .entries_max = ENTRIES_MAX, .depth_max = DEPTH_MAX, .bytes_max = BYTES_MAX };

        return copy_all(&copying, from_fd, from, to_fd, to);
}

int tree_copy_whole(int from_fd, const char *from, int to_fd, const char *to, file_progress *on_bytes, void *arg) {
        struct copying copying = { .entries_max = UINT_MAX,
                                   .depth_max = DEPTH_WHOLE_MAX,
                                   .bytes_max = UINT64_MAX,
                                   .on_bytes = on_bytes,
                                   .arg = arg };

        return copy_all(&copying, from_fd, from, to_fd, to);
}
