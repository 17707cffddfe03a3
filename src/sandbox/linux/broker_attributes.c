/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes a file that is there: its length, mode, owner, attributes. By name or by a descriptor: a file that may
 * be read but not written has descriptors too, and the kernel asks only who owns it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/xattr.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int result_of(long r) {
        return r < 0 ? -errno : 0;
}

static int judge_found(struct held *h, struct place *p, enum sharing sharing) {
        int r;

        h->writes = true;
        if (p->object < 0)
                return -ENOENT;
        r = judge_change(h, p);
        if (r == 0)
                r = judge_object(h, p->object);
        if (r == 0)
                r = judge_repository(h, p);
        return r < 0 ? r : judge_shared(h, p, sharing);
}

static int find_by_name(struct held *h, int dirfd, __u64 address, enum walk_mode mode, struct place *ret) {
        int r = broker_find(h, dirfd, address, mode, ret);

        return r < 0 ? r : judge_found(h, ret, SHARING_ENDS);
}

static int find_by_descriptor(struct held *h, int number, struct place *ret) {
        int r = number < 0 ? -EBADF : walk_descriptor(&h->tracee, number, ret);

        if (r < 0)
                return r;
        memcpy(h->path, ret->path, strlen(ret->path) + 1);
        return judge_found(h, ret, SHARING_REFUSED);
}

int op_truncate(struct held *h) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_by_name(h, AT_FDCWD, h->args[0], WALK_FOLLOW, &p);
        struct fd_link link = link_to(p.object);

        return r < 0 ? r : result_of(truncate(link.path, (off_t)h->args[1]));
}

/* --- modes --- */

static int chmod_place(const struct place *p, mode_t mode) {
        struct fd_link link = link_to(p->object);

        return result_of(chmod(link.path, mode & 07777));
}

static int chmod_named(struct held *h, int dirfd, __u64 address, mode_t mode) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = broker_find(h, dirfd, address, WALK_FOLLOW, &p);

        if (r == 0 && copy_is_locked(h, &p))
                return 0; /* its mode means nothing */
        if (r == 0)
                r = judge_found(h, &p, SHARING_ENDS);
        return r < 0 ? r : chmod_place(&p, mode);
}

int op_chmod(struct held *h) {
        return chmod_named(h, AT_FDCWD, h->args[0], (mode_t)h->args[1]);
}

int op_fchmodat(struct held *h) {
        return chmod_named(h, (int)h->args[0], h->args[1], (mode_t)h->args[2]);
}

/* With AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH it does more than chmod; the C library falls back to the older call. */
int op_fchmodat2(struct held *h) {
        return h->args[3] == 0 ? op_fchmodat(h) : -ENOSYS;
}

/* A right to run is nobody's to judge. It is handed over so that it comes after the call that made the file: see
 * can_be_run() in broker_open.c. */
int op_fchmod(struct held *h) {
        const mode_t gives = S_IWGRP | S_IWOTH | S_ISUID | S_ISGID | S_ISVTX;
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r;

        if (!h->broker->judges_modes && !((mode_t)h->args[1] & gives))
                return OP_CONTINUE;
        r = find_by_descriptor(h, (int)h->args[0], &p);
        return r < 0 ? r : chmod_place(&p, (mode_t)h->args[1]);
}

/* --- owners --- */

static int chown_place(const struct place *p, __u64 user, __u64 group) {
        return result_of(fchownat(p->object, "", (uid_t)user, (gid_t)group, AT_EMPTY_PATH));
}

static int chown_named(struct held *h, int dirfd, __u64 address, enum walk_mode mode, const __u64 *owners) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_by_name(h, dirfd, address, mode, &p);

        return r < 0 ? r : chown_place(&p, owners[0], owners[1]);
}

static int chown_descriptor(struct held *h, int number, const __u64 *owners) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_by_descriptor(h, number, &p);

        return r < 0 ? r : chown_place(&p, owners[0], owners[1]);
}

int op_chown(struct held *h) {
        return chown_named(h, AT_FDCWD, h->args[0], WALK_FOLLOW, &h->args[1]);
}

int op_lchown(struct held *h) {
        return chown_named(h, AT_FDCWD, h->args[0], WALK_NOFOLLOW, &h->args[1]);
}

int op_fchown(struct held *h) {
        return chown_descriptor(h, (int)h->args[0], &h->args[1]);
}

int op_fchownat(struct held *h) {
        int flags = (int)h->args[4];
        char first = 1;

        if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
                return -EINVAL;
        if (flags & AT_EMPTY_PATH) {
                int r = tracee_read(&h->tracee, h->args[1], &first, 1);
                if (r < 0)
                        return r;
        }
        if (!first)
                return chown_descriptor(h, (int)h->args[0], &h->args[2]);
        return chown_named(h, (int)h->args[0], h->args[1], flags & AT_SYMLINK_NOFOLLOW ? WALK_NOFOLLOW : WALK_FOLLOW,
                           &h->args[2]);
}

/* --- extended attributes --- */

static int set_attribute(struct held *h, const struct place *p, const __u64 *args) {
        char name[XATTR_NAME_MAX + 1];
        struct fd_link link = link_to(p->object);
        size_t size = (size_t)args[2];
        int r;

        r = tracee_read_path(&h->tracee, args[0], name, sizeof name);
        if (r < 0)
                return r == -ENAMETOOLONG ? -ERANGE : r;
        if (size > XATTR_SIZE_MAX)
                return -E2BIG;
        cleanup(free_ptr) char *value = malloc(size + 1);
        if (!value)
                return -ENOMEM;
        r = tracee_read(&h->tracee, args[1], value, size);
        return r < 0 ? r : result_of(setxattr(link.path, name, value, size, (int)args[3]));
}

static int remove_attribute(struct held *h, const struct place *p, const __u64 *args) {
        char name[XATTR_NAME_MAX + 1];
        struct fd_link link = link_to(p->object);
        int r = tracee_read_path(&h->tracee, args[0], name, sizeof name);

        if (r < 0)
                return r == -ENAMETOOLONG ? -ERANGE : r;
        return result_of(removexattr(link.path, name));
}

typedef int attribute_change(struct held *h, const struct place *p, const __u64 *args);

/* A link has no attributes that a program without privileges could set. */
static int attribute_named(struct held *h, enum walk_mode mode, attribute_change *change) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        struct stat st;
        int r = find_by_name(h, AT_FDCWD, h->args[0], mode, &p);

        if (r < 0)
                return r;
        if (fstat(p.object, &st) < 0 || S_ISLNK(st.st_mode))
                return -EPERM;
        return change(h, &p, &h->args[1]);
}

static int attribute_descriptor(struct held *h, attribute_change *change) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_by_descriptor(h, (int)h->args[0], &p);

        return r < 0 ? r : change(h, &p, &h->args[1]);
}

int op_setxattr(struct held *h) {
        return attribute_named(h, WALK_FOLLOW, set_attribute);
}
int op_lsetxattr(struct held *h) {
        return attribute_named(h, WALK_NOFOLLOW, set_attribute);
}
int op_fsetxattr(struct held *h) {
        return attribute_descriptor(h, set_attribute);
}
int op_removexattr(struct held *h) {
        return attribute_named(h, WALK_FOLLOW, remove_attribute);
}
int op_lremovexattr(struct held *h) {
        return attribute_named(h, WALK_NOFOLLOW, remove_attribute);
}
int op_fremovexattr(struct held *h) {
        return attribute_descriptor(h, remove_attribute);
}

/* The mask itself is the caller's affair; what is kept of it follows. */
int op_umask(struct held *h) {
        int r = tracee_umask_changes(&h->tracee, (mode_t)h->args[0]);

        return r < 0 ? r : OP_CONTINUE;
}
