/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/file_copy.h"

#include "base/bounds.h"
#include "base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { PIECE = 65536, ROOM = 1 << 20 };

/* By the kernel where it can: the two may share their blocks. 0 at the end; -EXDEV and the like: not in this way. */
static ssize_t copy_piece(int source, int target, size_t most) {
        ssize_t n;

        do
                n = copy_file_range(source, NULL, target, NULL, min_of(most, ROOM), 0);
        while (n < 0 && errno == EINTR);

        if (n < 0)
                return -errno;

        return n;
}

static ssize_t copy_piece_through(int source, int target, size_t most) {
        char block[PIECE];
        ssize_t n;

        do
                n = read(source, block, min_of(most, sizeof block));
        while (n < 0 && errno == EINTR);

        if (n < 0)
                return -errno;

        int r = 0;

        if (n > 0)
                r = fd_write_all(target, block, (size_t)n);

        if (r < 0)
                return r;

        return n;
}

static int copy_bytes(int source, int target, uint64_t left, file_progress *on_bytes, void *arg) {
        bool by_kernel = true;

        while (left > 0) {
                size_t most = left < SIZE_MAX ? (size_t)left : SIZE_MAX;
                ssize_t n = -EXDEV;

                if (by_kernel)
                        n = copy_piece(source, target, most);

                /* Before the first byte some file systems say that they cannot, and some of the kernel's own claim to
                 * have none. Then it is tried by hand. */
                if (n <= 0 && n != -ENOSPC && n != -EDQUOT) {
                        by_kernel = false;
                        n = copy_piece_through(source, target, most);
                }

                if (n <= 0)
                        return (int)n;

                left -= (uint64_t)n;
                if (on_bytes)
                        on_bytes(arg, (uint64_t)n);
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

int file_copy_content(int source, int target, uint64_t size, file_progress *on_bytes, void *arg) {
        uint64_t at = 0, begin, end;
        struct stat now;

        for (; at < size && data_find(source, at, size, &begin, &end); at = end) {
                if (lseek(source, (off_t)begin, SEEK_SET) < 0 || lseek(target, (off_t)begin, SEEK_SET) < 0)
                        return -errno;

                int r = copy_bytes(source, target, end - begin, on_bytes, arg);
                if (r < 0)
                        return r;
        }

        if (fstat(source, &now) == 0 && (uint64_t)now.st_size < size)
                size = (uint64_t)now.st_size; /* cut off meanwhile */
        if (ftruncate(target, (off_t)size) < 0)
                return -errno;

        return 0;
}
