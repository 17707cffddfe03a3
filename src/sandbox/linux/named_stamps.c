/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/named_stamps.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The kernel's clock for files may stand still for 10 ms: of two changes in that time only the first shows. Some file
 * systems keep whole seconds, or two of them. */
enum { STAMPS_BYTES_MAX = 16 << 20, UNSETTLED_US = 25000, UNSETTLED_WHOLE_US = 3000000 };

struct stamp {
        uint64_t error, device, inode, mode, size;
        int64_t changed[2], modified[2]; /* seconds and nanoseconds */
};

void stamps_begin(struct stamps *stamps) {
        *stamps = (struct stamps){ .bytes = BUF(STAMPS_BYTES_MAX), .begun_us = clock_wall_us() };
}

void stamps_done(struct stamps *stamps) {
        buf_done(&stamps->bytes);
}

static int stamps_append(struct stamps *stamps, int error, const struct stat *st) {
        struct stamp stamp = { .error = (uint64_t)error };

        if (error == 0) {
                uint64_t settled_us = (uint64_t)st->st_ctim.tv_sec * 1000000 + (uint64_t)st->st_ctim.tv_nsec / 1000;

                settled_us += st->st_ctim.tv_nsec ? UNSETTLED_US : UNSETTLED_WHOLE_US;
                stamp = (struct stamp){ .device = st->st_dev,
                                        .inode = st->st_ino,
                                        .mode = st->st_mode,
                                        .size = (uint64_t)st->st_size,
                                        .changed = { st->st_ctim.tv_sec, st->st_ctim.tv_nsec },
                                        .modified = { st->st_mtim.tv_sec, st->st_mtim.tv_nsec } };
                if (settled_us > stamps->settled_us)
                        stamps->settled_us = settled_us;
        }

        return buf_append(&stamps->bytes, str_n((const char *)&stamp, sizeof stamp));
}

int stamps_add(struct stamps *stamps, const char *path) {
        struct stat st;
        int error = lstat(path, &st) < 0 ? errno : 0;
        int r = stamps_append(stamps, error, &st);

        if (r < 0 || error != 0 || !S_ISLNK(st.st_mode))
                return r;

        error = stat(path, &st) < 0 ? errno : 0;
        return stamps_append(stamps, error, &st);
}

bool stamps_same(const struct stamps *older, const struct stamps *newer) {
        return older->settled_us < older->begun_us && older->bytes.n == newer->bytes.n &&
               (newer->bytes.n == 0 || memcmp(older->bytes.p, newer->bytes.p, newer->bytes.n) == 0);
}
