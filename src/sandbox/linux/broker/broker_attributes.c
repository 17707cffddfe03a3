/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that change an existing file: its length, mode, owner, attributes, by name or by descriptor. A file that may
 * only be read has descriptors too, and for those the kernel checks only the owner.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/xattr.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int result_of(long r) {
        if (r < 0)
                return -errno;

        return 0;
}

static int judge_found(struct held *held, struct place *place, enum sharing sharing) {
        int r;

        held->writes = true;
        if (place->object < 0)
                return -ENOENT;

        r = judge_change(held, place);
        if (r == 0)
                r = judge_object(held, place->object);
        if (r == 0)
                r = judge_parts(held, place);
        if (r < 0)
                return r;

        return judge_shared(held, place, sharing);
}

static int find_by_name(struct held *held, int dirfd, __u64 address, enum walk_mode mode, struct place *ret) {
        int r = broker_find(held, dirfd, address, mode, ret);

        if (r < 0)
                return r;

        return judge_found(held, ret, SHARING_ENDS);
}

static int find_by_descriptor(struct held *held, int number, struct place *ret) {
        int r = -EBADF;

        if (number >= 0)
                r = walk_descriptor(&held->tracee, number, ret);

        if (r < 0)
                return r;
        memcpy(held->path, ret->path, strlen(ret->path) + 1);
        return judge_found(held, ret, SHARING_REFUSED);
}

int op_truncate(struct held *held) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_by_name(held, AT_FDCWD, held->args[0], WALK_FOLLOW, &place);
        struct fd_link link = link_to(place.object);

        if (r < 0)
                return r;

        return result_of(truncate(link.path, (off_t)held->args[1]));
}

/* --- modes --- */

static int chmod_place(const struct place *place, mode_t mode) {
        struct fd_link link = link_to(place->object);

        return result_of(chmod(link.path, mode & 07777));
}

static int chmod_named(struct held *held, int dirfd, __u64 address, mode_t mode) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = broker_find(held, dirfd, address, WALK_FOLLOW, &place);

        if (r == 0 && copy_is_locked(held, &place))
                return 0; /* its mode means nothing */
        if (r == 0)
                r = judge_found(held, &place, SHARING_ENDS);
        if (r < 0)
                return r;

        return chmod_place(&place, mode);
}

int op_chmod(struct held *held) {
        return chmod_named(held, AT_FDCWD, held->args[0], (mode_t)held->args[1]);
}

int op_fchmodat(struct held *held) {
        return chmod_named(held, (int)held->args[0], held->args[1], (mode_t)held->args[2]);
}

/* With AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH it does more than chmod; the C library falls back to the older call. */
int op_fchmodat2(struct held *held) {
        if (held->args[3] != 0)
                return -ENOSYS;

        return op_fchmodat(held);
}

/* Execute bits are not judged. The call is handed over only so that it comes after the one that made the file: see
 * can_be_run() in broker_open.c. */
int op_fchmod(struct held *held) {
        const mode_t gives = S_IWGRP | S_IWOTH | S_ISUID | S_ISGID | S_ISVTX;
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r;

        if (!held->broker->judges_modes && !((mode_t)held->args[1] & gives))
                return OP_CONTINUE;

        r = find_by_descriptor(held, (int)held->args[0], &place);
        if (r < 0)
                return r;

        return chmod_place(&place, (mode_t)held->args[1]);
}

/* --- owners --- */

static int chown_place(const struct place *place, __u64 user, __u64 group) {
        return result_of(fchownat(place->object, "", (uid_t)user, (gid_t)group, AT_EMPTY_PATH));
}

static int chown_named(struct held *held, int dirfd, __u64 address, enum walk_mode mode, const __u64 *owners) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_by_name(held, dirfd, address, mode, &place);

        if (r < 0)
                return r;

        return chown_place(&place, owners[0], owners[1]);
}

static int chown_descriptor(struct held *held, int number, const __u64 *owners) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_by_descriptor(held, number, &place);

        if (r < 0)
                return r;

        return chown_place(&place, owners[0], owners[1]);
}

int op_chown(struct held *held) {
        return chown_named(held, AT_FDCWD, held->args[0], WALK_FOLLOW, &held->args[1]);
}

int op_lchown(struct held *held) {
        return chown_named(held, AT_FDCWD, held->args[0], WALK_NOFOLLOW, &held->args[1]);
}

int op_fchown(struct held *held) {
        return chown_descriptor(held, (int)held->args[0], &held->args[1]);
}

int op_fchownat(struct held *held) {
        int flags = (int)held->args[4];
        char first = 1;

        if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
                return -EINVAL;

        if (flags & AT_EMPTY_PATH) {
                int r = tracee_read(&held->tracee, held->args[1], &first, 1);
                if (r < 0)
                        return r;
        }

        if (!first)
                return chown_descriptor(held, (int)held->args[0], &held->args[2]);

        return chown_named(held, (int)held->args[0], held->args[1],
                           flags & AT_SYMLINK_NOFOLLOW ? WALK_NOFOLLOW : WALK_FOLLOW, &held->args[2]);
}

/* --- extended attributes --- */

static int set_attribute(struct held *held, const struct place *place, const __u64 *args) {
        char name[XATTR_NAME_MAX + 1];
        struct fd_link link = link_to(place->object);
        size_t size = (size_t)args[2];
        int r;

        r = tracee_read_path(&held->tracee, args[0], name, sizeof name);
        if (r == -ENAMETOOLONG)
                return -ERANGE;
        if (r < 0)
                return r;
        if (size > XATTR_SIZE_MAX)
                return -E2BIG;

        cleanup(free_ptr) char *value = malloc(size + 1);
        if (!value)
                return -ENOMEM;

        r = tracee_read(&held->tracee, args[1], value, size);
        if (r < 0)
                return r;

        return result_of(setxattr(link.path, name, value, size, (int)args[3]));
}

static int remove_attribute(struct held *held, const struct place *place, const __u64 *args) {
        char name[XATTR_NAME_MAX + 1];
        struct fd_link link = link_to(place->object);
        int r = tracee_read_path(&held->tracee, args[0], name, sizeof name);

        if (r == -ENAMETOOLONG)
                return -ERANGE;
        if (r < 0)
                return r;
        return result_of(removexattr(link.path, name));
}

typedef int attribute_change(struct held *h, const struct place *p, const __u64 *args);

/* A link has no attributes that a program without privileges could set. */
static int attribute_named(struct held *held, enum walk_mode mode, attribute_change *change) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct stat st;
        int r = find_by_name(held, AT_FDCWD, held->args[0], mode, &place);

        if (r < 0)
                return r;
        if (fstat(place.object, &st) < 0 || S_ISLNK(st.st_mode))
                return -EPERM;

        return change(held, &place, &held->args[1]);
}

static int attribute_descriptor(struct held *held, attribute_change *change) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_by_descriptor(held, (int)held->args[0], &place);

        if (r < 0)
                return r;

        return change(held, &place, &held->args[1]);
}

int op_setxattr(struct held *held) {
        return attribute_named(held, WALK_FOLLOW, set_attribute);
}
int op_lsetxattr(struct held *held) {
        return attribute_named(held, WALK_NOFOLLOW, set_attribute);
}
int op_fsetxattr(struct held *held) {
        return attribute_descriptor(held, set_attribute);
}
int op_removexattr(struct held *held) {
        return attribute_named(held, WALK_FOLLOW, remove_attribute);
}
int op_lremovexattr(struct held *held) {
        return attribute_named(held, WALK_NOFOLLOW, remove_attribute);
}
int op_fremovexattr(struct held *held) {
        return attribute_descriptor(held, remove_attribute);
}

/* --- flags --- */

enum {
        SET_FLAGS = 0x40086602,        /* FS_IOC_SETFLAGS, as 64-bit programs have it */
        SET_FLAGS_32 = 0x40046602,     /* as others have */
        SET_EXTENDED = 0x401c5820,     /* FS_IOC_FSSETXATTR */
        SET_VERSION = 0x40087602,      /* FS_IOC_SETVERSION */
        SET_VERSION_32 = 0x40047602,   /* as programs of 32 bits have it */
        SET_VERSION_EXT4 = 0x40086604, /* EXT4_IOC_SETVERSION: an older number for the same */
        SET_VERSION_EXT4_32 = 0x40046604,
        ENABLE_VERITY = 0x40806685,        /* FS_IOC_ENABLE_VERITY */
        SET_ENCRYPTION = (int)0x800c6613,  /* FS_IOC_SET_ENCRYPTION_POLICY */
        SET_FAT_ATTRIBUTES = 0x40047211,   /* FAT_IOCTL_SET_ATTRIBUTES */
        SET_VOLUME = 0x4008941a,           /* BTRFS_IOC_SUBVOL_SETFLAGS */
        SET_RECEIVED = (int)0xc0c89425,    /* BTRFS_IOC_SET_RECEIVED_SUBVOL */
        SET_RECEIVED_32 = (int)0xc0c09425, /* the same, as programs of 32 bits call it; the kernel takes it from all */
};
static_assert(SET_FLAGS == FS_IOC_SETFLAGS && SET_EXTENDED == FS_IOC_FSSETXATTR, "numbers of the kernel");

const uint32_t broker_flag_requests[] = { SET_FLAGS,          SET_FLAGS_32,    SET_EXTENDED,       SET_VERSION,
                                          ENABLE_VERITY,      SET_ENCRYPTION,  SET_FAT_ATTRIBUTES, SET_VOLUME,
                                          SET_RECEIVED,       SET_RECEIVED_32, SET_VERSION_32,     SET_VERSION_EXT4,
                                          SET_VERSION_EXT4_32 };
const size_t broker_flag_requests_n = sizeof broker_flag_requests / sizeof *broker_flag_requests;

static int set_flags(struct held *held, int file, unsigned long request, size_t n) {
        struct fsxattr value = { 0 }; /* the larger of the two */
        int r = tracee_read(&held->tracee, held->args[2], &value, n);

        if (r < 0)
                return r;

        return result_of(ioctl(file, request, &value));
}

/* On any descriptor that is no O_PATH: it need not be open for writing. What nobody here needs is not performed. */
int op_ioctl(struct held *held) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_by_descriptor(held, (int)held->args[0], &place);

        if (r < 0)
                return r;

        cleanup(close_fd) int file = walk_reopen(place.object, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        if (file < 0)
                return file;

        switch ((uint32_t)held->args[1]) {
        case SET_FLAGS:
                return set_flags(held, file, FS_IOC_SETFLAGS, sizeof(int));
        case SET_EXTENDED:
                return set_flags(held, file, FS_IOC_FSSETXATTR, sizeof(struct fsxattr));
        default:
                return -EOPNOTSUPP;
        }
}

/* The mask itself is the caller's affair; what is kept of it follows. */
int op_umask(struct held *held) {
        int r = tracee_umask_changes(&held->tracee, (mode_t)held->args[0]);

        if (r < 0)
                return r;

        return OP_CONTINUE;
}
