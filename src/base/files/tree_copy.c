/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
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
enum { DEPTH_MAX = 64, DEPTH_WHOLE_MAX = 256, ENTRIES_MAX = 20000, PIECE = 65536, ROOM = 1 << 20 };
#define BYTES_MAX ((uint64_t)256 << 20)

struct copying {
        unsigned entries, entries_max, depth_max;
        uint64_t bytes, bytes_max;
        bool made; /* the topmost entry: until then whatever has its name is somebody else's */
        tree_progress *on_bytes;
        void *arg;
};

static int copy_entry(struct copying *copying, int from_fd, const char *from, int to_fd, const char *to,
                      unsigned depth);

/* By the kernel where it can: the two may share their blocks. 0 at the end; -EXDEV and the like: not in this way. */
static ssize_t copy_piece(int source, int target, size_t most) {
        ssize_t n;

        do
                n = copy_file_range(source, NULL, target, NULL, most < ROOM ? most : ROOM, 0);
        while (n < 0 && errno == EINTR);

        return n < 0 ? -errno : n;
}

static ssize_t copy_piece_through(int source, int target, size_t most) {
        char block[PIECE];
        ssize_t n;

        do
                n = read(source, block, most < sizeof block ? most : sizeof block);
        while (n < 0 && errno == EINTR);

        if (n < 0)
                return -errno;

        int r = n > 0 ? fd_write_all(target, block, (size_t)n) : 0;
        return r < 0 ? r : n;
}

static int copy_bytes(struct copying *copying, int source, int target, uint64_t left) {
        bool by_kernel = true;

        while (left > 0) {
                size_t most = left < SIZE_MAX ? (size_t)left : SIZE_MAX;
                ssize_t n = by_kernel ? copy_piece(source, target, most) : -EXDEV;

                /* Before the first byte some file systems say that they cannot, and some of the kernel's own claim to
                 * have none. Then it is tried by hand. */
                if (n <= 0 && n != -ENOSPC && n != -EDQUOT) {
                        by_kernel = false;
                        n = copy_piece_through(source, target, most);
                }

                if (n <= 0)
                        return (int)n;

                left -= (uint64_t)n;
                if (copying->on_bytes)
                        copying->on_bytes(copying->arg, (uint64_t)n);
        }

        return 0;
}

/* The next bytes that are no hole, from `at` on: where they begin and end. False: nothing but a hole follows. */
static bool data_find(int source, uint64_t at, uint64_t size, uint64_t *ret_begin, uint64_t *ret_end) {
        off_t begin = lseek(source, (off_t)at, SEEK_DATA), end;

        if (begin < 0 && errno == ENXIO)
                return false;
        if (begin < 0) /* a file system that does not know */
                begin = (off_t)at;

        end = lseek(source, begin, SEEK_HOLE);
        if (end <= begin || (uint64_t)end > size)
                end = (off_t)size;

        *ret_begin = (uint64_t)begin;
        *ret_end = (uint64_t)end;
        return *ret_begin < size;
}

/* As long as the file was at the beginning, since somebody may go on appending. Holes stay holes; for the bound they
 * count like data, as not every file system has them. */
static int copy_content(struct copying *copying, int source, int target, uint64_t size) {
        uint64_t at = 0, begin, end;
        struct stat now;

        if (size > copying->bytes_max - copying->bytes)
                return -E2BIG;
        copying->bytes += size;

        for (; at < size && data_find(source, at, size, &begin, &end); at = end) {
                if (lseek(source, (off_t)begin, SEEK_SET) < 0 || lseek(target, (off_t)begin, SEEK_SET) < 0)
                        return -errno;

                int r = copy_bytes(copying, source, target, end - begin);
                if (r < 0)
                        return r;
        }

        if (fstat(source, &now) == 0 && (uint64_t)now.st_size < size)
                size = (uint64_t)now.st_size; /* cut off meanwhile */
        return ftruncate(target, (off_t)size) < 0 ? -errno : 0;
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

        return fchmod(target, (mode & 0777) | 0600) < 0 ? -errno : 0;
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
        return r == 0 && fchmod(target, (mode & 0777) | 0700) < 0 ? -errno : r;
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

        return S_ISREG(st.st_mode) ? copy_file(copying, from_fd, from, to_fd, to, st.st_mode) : 0;
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

int tree_copy_whole(int from_fd, const char *from, int to_fd, const char *to, tree_progress *on_bytes, void *arg) {
        struct copying copying = { .entries_max = UINT_MAX,
                                   .depth_max = DEPTH_WHOLE_MAX,
                                   .bytes_max = UINT64_MAX,
                                   .on_bytes = on_bytes,
                                   .arg = arg };

        return copy_all(&copying, from_fd, from, to_fd, to);
}
