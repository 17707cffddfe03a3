/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/fresh.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { KNOWN = 4096 }; /* of those that were made inside; one that was pushed out waits as a stranger's does */
#define MOMENT_NS ((int64_t)NS_PER_SECOND)

struct birth {
        uint64_t device, number;
        int64_t at_ns;
};

struct fresh {
        int64_t began_ns;
        struct birth own[KNOWN];
};

static int64_t to_ns(int64_t seconds, int64_t ns) {
        return seconds * (int64_t)NS_PER_SECOND + ns;
}

/* Clocks of file systems may be a few milliseconds behind this one, never before it. */
static int64_t clock_of_files(void) {
        struct timespec now = { 0 };

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return to_ns(now.tv_sec, now.tv_nsec);
}

int fresh_new(struct fresh **ret) {
        struct fresh *fresh = calloc(1, sizeof *fresh);

        if (!fresh)
                return -ENOMEM;
        fresh->began_ns = clock_of_files();
        *ret = fresh;
        return 0;
}

static bool find_birth(int dir, const char *name, struct birth *ret) {
        struct statx st;

        if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &st) < 0 ||
            !(st.stx_mask & STATX_BTIME) || !S_ISREG(st.stx_mode))
                return false;

        *ret = (struct birth){ (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor, st.stx_ino,
                               to_ns(st.stx_btime.tv_sec, st.stx_btime.tv_nsec) };
        return true;
}

/* What was there when the broker began is nobody's save. */
static bool is_young(const struct fresh *fresh, const struct birth *birth) {
        int64_t now = clock_of_files();

        return birth->at_ns > fresh->began_ns && birth->at_ns <= now && now - birth->at_ns < MOMENT_NS;
}

void fresh_made(struct fresh *fresh, int dir, const char *name) {
        struct birth birth;

        if (find_birth(dir, name, &birth))
                fresh->own[birth.number % KNOWN] = birth;
}

static bool is_known(const struct fresh *fresh, const struct birth *birth) {
        const struct birth *own = &fresh->own[birth->number % KNOWN];

        return own->number == birth->number && own->device == birth->device && own->at_ns == birth->at_ns;
}

/* Its number may be the next file's. */
void fresh_goes(struct fresh *fresh, int dir, const char *name) {
        struct birth birth;

        if (find_birth(dir, name, &birth) && is_known(fresh, &birth))
                fresh->own[birth.number % KNOWN] = (struct birth){ 0 };
}

bool fresh_is_foreign(const struct fresh *fresh, int dir, const char *name) {
        struct birth birth;

        return find_birth(dir, name, &birth) && is_young(fresh, &birth) && !is_known(fresh, &birth);
}
