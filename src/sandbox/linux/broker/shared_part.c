/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of its own for one name of a file: made beside it, then put in its place. */
#include "sandbox/linux/broker/shared.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/file_copy.h"
#include "sandbox/linux/broker/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { ATTRIBUTES_MAX = 4096, TRIES_MAX = 64 };
#define PART_BYTES_MAX ((off_t)1 << 30)

/* By reference where the file system can, however large it is. */
static int copy_content(int from, int to, off_t size) {
        if (ioctl(to, FICLONE, from) == 0)
                return 0;
        if (size > PART_BYTES_MAX)
                return -EFBIG;

        return file_copy_content(from, to, (uint64_t)size, NULL, NULL);
}

/* An access list is one of them: without it the file's group could have more rights than before. */
static int copy_attributes(int from, int to) {
        char names[ATTRIBUTES_MAX], value[ATTRIBUTES_MAX];
        ssize_t n = flistxattr(from, names, sizeof names);

        if (n < 0 && errno == ENOTSUP)
                return 0;
        if (n < 0)
                return -errno;

        for (const char *name = names; name < names + n; name += strlen(name) + 1) {
                ssize_t size = fgetxattr(from, name, value, sizeof value);
                bool access = strcmp(name, "system.posix_acl_access") == 0;

                if ((size < 0 || fsetxattr(to, name, value, (size_t)size, 0) < 0) && access)
                        return -EACCES;
        }

        return 0;
}

static int copy_rest(int from, int to, const struct stat *st) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };

        if (fchown(to, st->st_uid, st->st_gid) < 0 &&
            (st->st_uid != geteuid() || fchown(to, st->st_uid, (gid_t)-1) < 0))
                return -errno;

        if (fchmod(to, st->st_mode & 0777) < 0)
                return -errno;

        int r = copy_attributes(from, to);
        if (r < 0)
                return r;

        if (futimens(to, times) < 0)
                return -errno;

        return 0;
}

static int open_beside(int directory, char name[static 48]) {
        int fd = -1;

        for (unsigned i = 0; i < TRIES_MAX && fd < 0; i++) {
                snprintf(name, 48, ".bailey-copy-%d-%u", (int)getpid(), i);
                fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0 && errno != EEXIST)
                        return -errno;
        }

        if (fd < 0)
                return -EEXIST;

        return fd;
}

static int make_copy(int directory, const char *name, bool empty, int object, const struct stat *st) {
        cleanup(close_fd) int from = walk_reopen(object, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
        char beside[48];

        if (from < 0)
                return from;

        int to = open_beside(directory, beside);
        if (to < 0)
                return to;

        int r = 0;

        if (!empty)
                r = copy_content(from, to, st->st_size);

        if (r == 0)
                r = copy_rest(from, to, st);
        if (r == 0 && renameat(directory, beside, directory, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(directory, beside, 0);

        close(to);
        return r;
}

int shared_part(int directory, const char *name, bool empty, int *object) {
        struct stat st, named;

        if (fstat(*object, &st) < 0 || fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
                return -EACCES;
        if (st.st_ino != named.st_ino || st.st_dev != named.st_dev)
                return -EACCES; /* it has another name by now */

        int r = make_copy(directory, name, empty, *object, &st);
        if (r < 0) {
                if (r == -ENOSPC || r == -EDQUOT)
                        return r;
                return -EACCES;
        }

        int fresh = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fresh < 0)
                return -errno;

        close_fd(object);
        *object = fresh;

        return 0;
}
