/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of mounts before Linux 5.12, which has no mount_setattr(): mount(2) changes them one mount at a time, and
 * only of mounts that are attached. So this comes after attaching, and goes through the list of mounts below for a
 * whole tree. Nothing of the sandbox runs yet, so nobody uses the moment in between.
 *
 * Flags that a mount has are kept: in a user namespace they may not be taken away. A mount that init with its
 * capabilities cannot reach is out of reach for the command too.
 */
#include "sandbox/linux/mounts_classic.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The same bits have the same meaning in all three: MOUNT_ATTR_*, MS_* and what statfs() tells. */
static const unsigned long known = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
_Static_assert(MOUNT_ATTR_RDONLY == MS_RDONLY && MOUNT_ATTR_NOSUID == MS_NOSUID && MOUNT_ATTR_NODEV == MS_NODEV &&
                   MOUNT_ATTR_NOEXEC == MS_NOEXEC,
               "attributes are flags");
enum { MOUNTS_TEXT_MAX = 16 << 20 };

static int set_one(int place, unsigned long set) {
        char link[40];
        struct statfs fs;
        snprintf(link, sizeof link, "/proc/self/fd/%d", place);
        if (fstatfs(place, &fs) < 0)
                return -errno;
        unsigned long flags = MS_REMOUNT | MS_BIND | set | ((unsigned long)fs.f_flags & known);
        if (mount(NULL, link, NULL, flags, NULL) < 0)
                return -errno;

        return 0;
}

/* Blanks and the like are written as \ooo there. */
static void classic_unescape(struct str text, char ret[static PATH_MAX]) {
        size_t n = 0;
        for (size_t i = 0; i < text.n && n + 1 < PATH_MAX; i++) {
                const char *c = text.p + i;
                unsigned byte = (unsigned char)c[0];

                if (c[0] == '\\' && i + 3 < text.n) {
                        byte = ((unsigned)c[1] & 7) << 6 | ((unsigned)c[2] & 7) << 3 | ((unsigned)c[3] & 7);
                        i += 3;
                }

                ret[n++] = (char)(byte & 0xff);
        }

        ret[n] = '\0';
}

static int check_one(int place, unsigned long set) {
        struct statfs fs;
        if (fstatfs(place, &fs) < 0)
                return -errno;
        if (((unsigned long)fs.f_flags & set) != set)
                return -EPERM;

        return 0;
}

/* Every place in the list that is below the top. A mount that is covered by a later one, in its place or above, is not
 * found there: what is found instead is in the list too. */
static int each_below(struct str list, const char *top, int (*do_one)(int place, unsigned long set),
                      unsigned long set) {
        struct str line, word = { 0 };
        int r = 0;
        while (r == 0 && str_split(&list, '\n', &line)) {
                char path[PATH_MAX];
                int field = 0;
                while (field < 5 && str_split(&line, ' ', &word))
                        field++;

                if (field < 5)
                        continue;

                classic_unescape(word, path);
                if (strcmp(path, top) == 0 || !path_is_within(path, top))
                        continue;

                cleanup(close_fd) int place = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
                if (place < 0)
                        r = -errno;
                else
                        r = do_one(place, set);
                if (r == -EACCES || r == -ENOENT || r == -ENOTDIR)
                        r = 0;
        }

        return r;
}

static int set_if_root(int place, unsigned long set) {
        int r = set_one(place, set);
        if (r == -EINVAL)
                return 0; /* no root of a mount; looked at again at the end */

        return r;
}

static int set_below(const char *top, unsigned long set) {
        cleanup(buf_done) struct buf list = BUF(MOUNTS_TEXT_MAX);
        cleanup(close_fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd_read_all(fd, &list);
        if (r == 0)
                r = each_below(buf_str(&list), top, set_if_root, set);
        if (r < 0)
                return r;

        return each_below(buf_str(&list), top, check_one, set);
}

int mounts_classic_set(int place, uint64_t attributes, bool recursive) {
        char link[40], top[PATH_MAX];

        if (attributes & ~(uint64_t)known)
                return -EOPNOTSUPP;

        snprintf(link, sizeof link, "/proc/self/fd/%d", place);
        ssize_t n = readlink(link, top, sizeof top - 1);
        if (n < 0)
                return -errno;

        top[n] = '\0';
        if (mount(NULL, link, NULL, MS_PRIVATE | (recursive ? MS_REC : 0), NULL) < 0)
                return -errno;

        int r = set_one(place, (unsigned long)attributes);
        if (r < 0 || !recursive)
                return r;

        return set_below(top, (unsigned long)attributes);
}
