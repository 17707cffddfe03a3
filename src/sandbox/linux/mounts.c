/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount operations, with the descriptor-based calls. They need Linux 5.2; before it the first of them fails and the
 * launch with it, which says so. Attributes are set before a mount is attached from Linux 5.12 on, else right after.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "sandbox/linux/mounts_classic.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct slots {
        int fd[PLAN_SLOTS_MAX];
        size_t n;                                    /* slots from n on were never used */
        const struct plan_op *later[PLAN_SLOTS_MAX]; /* attributes that wait until the slot is attached */
};

/* Each slot has a descriptor of its own. Where they are all that is open between the first and the last of them, one
 * call closes them. */
static bool close_at_once(const struct slots *slots) {
        int low = INT_MAX, high = -1, open_n = 0;

        for (size_t i = 0; i < slots->n; i++) {
                if (slots->fd[i] < 0)
                        continue;

                if (slots->fd[i] < low)
                        low = slots->fd[i];
                if (slots->fd[i] > high)
                        high = slots->fd[i];
                open_n++;
        }

        return open_n > 0 && high - low + 1 == open_n && syscall(SYS_close_range, low, high, 0) == 0;
}

static void slots_done(struct slots *slots) {
        if (close_at_once(slots))
                return;
        for (size_t i = 0; i < slots->n; i++)
                close_fd(&slots->fd[i]);
}

static int slot_fd(const struct slots *slots, uint16_t slot) {
        if (slot == PLAN_ROOT)
                return AT_FDCWD;

        if (slot < slots->n)
                return slots->fd[slot];

        return -1;
}

static void slot_set(struct slots *slots, uint16_t slot, int fd) {
        while (slots->n <= slot)
                slots->fd[slots->n++] = -1;
        slots->fd[slot] = fd;
}

static bool is_of_root(const char *path) {
        return path[0] == '/' && str_find(str_of(path + 1), '/') < 0;
}

/* Paths of a plan have no links in them: if one has appeared meanwhile, somebody in the workspace wants another place
 * to be mounted or covered, and the launch fails. Only a directory of the root itself (/tmp, say) may be one: the
 * administrator made it. Kernels and filters without openat2 leave the last component to be checked. */
static int open_place(int at, const char *path, bool link) {
        bool of_root = is_of_root(path) && !link;
        struct open_how how = { .flags = O_PATH | O_CLOEXEC };
        if (link)
                how.flags |= O_NOFOLLOW;
        if (!of_root)
                how.resolve = RESOLVE_NO_SYMLINKS;

        long fd = syscall(SYS_openat2, at, path, &how, sizeof how);
        if (fd < 0 && (errno == ENOSYS || errno == EPERM))
                fd = openat(at, path, O_PATH | O_CLOEXEC | (of_root ? 0 : O_NOFOLLOW));
        if (fd < 0)
                return -errno;

        return (int)fd;
}

/* Directly in /dev, in the root or in a filesystem of Bailey's own, or where the kernel alone makes names (not all of
 * /sys: anybody makes links in /sys/fs/bpf): only the administrator can make links on the way there, so only the last
 * component must be checked, and the mount call does that itself. */
static bool is_direct(uint16_t at, const char *path) {
        struct str text = str_of(path);
        if (at != PLAN_ROOT)
                return str_find(text, '/') < 0;
        bool of_dev = str_starts(text, STR("/dev/")) && str_find(str_skip(text, 5), '/') < 0;
        bool of_kernel = str_starts(text, STR("/sys/devices/")) || str_starts(text, STR("/sys/kernel/"));
        return is_of_root(path) || of_dev || of_kernel;
}

static int do_clone(struct slots *slots, const struct plan_op *op) {
        unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (op->mode & PLAN_CLONE_TREE ? AT_RECURSIVE : 0);
        bool link = op->mode & PLAN_CLONE_LINK;
        int fd;

        if (is_direct(op->at, op->source) && !link) {
                flags |= AT_NO_AUTOMOUNT | (is_of_root(op->source) ? 0 : AT_SYMLINK_NOFOLLOW);
                fd = open_tree(slot_fd(slots, op->at), op->source, flags);
        } else {
                cleanup(close_fd) int place = open_place(slot_fd(slots, op->at), op->source, link);
                if (place < 0)
                        return place;
                fd = open_tree(place, "", flags | AT_EMPTY_PATH);
        }

        if (fd < 0)
                return -errno;

        slot_set(slots, op->slot, fd);
        return 0;
}

static int mounts_configure(int fs, const char *options) {
        struct str rest = str_of(options), word;
        while (str_split(&rest, ',', &word)) {
                char key[PATH_MAX + 16]; /* an overlay's options are paths */

                if (word.n >= sizeof key)
                        return -EINVAL;

                memcpy(key, word.p, word.n);
                key[word.n] = '\0';
                char *value = strchr(key, '=');
                if (value)
                        *value++ = '\0';
                if (fsconfig(fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0) < 0)
                        return -errno;
        }

        if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;

        return 0;
}

static int make_fs(struct slots *slots, const struct plan_op *op) {
        cleanup(close_fd) int fs = fsopen(op->source, FSOPEN_CLOEXEC);
        if (fs < 0)
                return -errno;

        int r = mounts_configure(fs, op->data);
        if (r < 0)
                return r;

        int fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)op->attr_set);
        if (fd < 0)
                return -errno;

        slot_set(slots, op->slot, fd);
        return 0;
}

/* An overlay may be more than this kernel, or the file system below, can do for this user. */
static int do_new_fs(struct slots *slots, const struct plan_op *op) {
        int r = make_fs(slots, op);

        if (r < 0 && (op->mode & PLAN_NEW_FS_MAYBE)) {
                slot_set(slots, op->slot, -1);
                return 0;
        }
        return r;
}

/* Before 5.12. What clears an attribute is not in any plan, and could not be done in a user namespace. */
static int set_attached(const struct slots *slots, uint16_t at, const char *target, const struct plan_op *op) {
        cleanup(close_fd) int place = open_place(slot_fd(slots, at), target, false);
        if (place < 0)
                return place;

        if (op->attr_clear)
                return -EOPNOTSUPP;

        return mounts_classic_set(place, op->attr_set, op->mode);
}

/* Nothing that the host mounts later may appear inside: always private, in the same call. */
static int do_setattr(struct slots *slots, const struct plan_op *op) {
        struct mount_attr attr = { .attr_set = op->attr_set, .attr_clr = op->attr_clear, .propagation = MS_PRIVATE };
        bool on_slot = op->slot != PLAN_ROOT;
        unsigned flags = op->mode ? AT_RECURSIVE : 0;
        int r;

        if (on_slot)
                r = mount_setattr(slot_fd(slots, op->slot), "", flags | AT_EMPTY_PATH, &attr, sizeof attr);
        else
                r = mount_setattr(slot_fd(slots, op->at), op->target, flags, &attr, sizeof attr);
        if (r == 0)
                return 0;

        if (errno != ENOSYS)
                return -errno;

        if (on_slot) {
                slots->later[op->slot] = op;
                return 0;
        }

        return set_attached(slots, op->at, op->target, op);
}

static int mounts_attach(struct slots *slots, const struct plan_op *op) {
        int mount = slot_fd(slots, op->slot), at = slot_fd(slots, op->at);
        bool link = op->mode & PLAN_ATTACH_LINK;
        if (is_direct(op->at, op->target) && !link) {
                unsigned links = is_of_root(op->target) ? MOVE_MOUNT_T_SYMLINKS : 0;
                if (move_mount(mount, "", at, op->target, MOVE_MOUNT_F_EMPTY_PATH | links) < 0)
                        return -errno;

                return 0;
        }

        cleanup(close_fd) int place = open_place(at, op->target, link);
        if (place < 0)
                return place;

        if (move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return -errno;

        return 0;
}

static int do_attach(struct slots *slots, const struct plan_op *op) {
        if (slot_fd(slots, op->slot) == -1)
                return 0; /* it could not be made, and does not have to be there */
        int r = mounts_attach(slots, op);
        if (r == 0 && slots->later[op->slot])
                return set_attached(slots, op->at, op->target, slots->later[op->slot]);
        bool out_of_reach = r == -ENOENT || r == -ENOTDIR || r == -EACCES;
        if ((op->mode & PLAN_ATTACH_MAYBE) && out_of_reach)
                return 0;

        return r;
}

static int do_mkdir(struct slots *slots, const struct plan_op *op) {
        if (mkdirat(slot_fd(slots, op->at), op->target, op->mode) < 0)
                return -errno;
        return 0;
}

static int do_file(struct slots *slots, const struct plan_op *op) {
        if (!op->data[0]) {
                if (mknodat(slot_fd(slots, op->at), op->target, S_IFREG | op->mode, 0) < 0)
                        return -errno;
                return 0;
        }
        cleanup(close_fd) int fd =
            openat(slot_fd(slots, op->at), op->target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, op->mode);
        if (fd < 0)
                return -errno;
        return fd_write_all(fd, op->data, strlen(op->data));
}

static int do_symlink(struct slots *slots, const struct plan_op *op) {
        if (symlinkat(op->source, slot_fd(slots, op->at), op->target) < 0)
                return -errno;

        return 0;
}

static int do_pivot(struct slots *slots, const struct plan_op *op) {
        cleanup(close_fd) int root = openat(slot_fd(slots, op->at), op->target, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0 || fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
            chdir("/") < 0)
                return -errno;
        return 0;
}

typedef int op_fn(struct slots *s, const struct plan_op *op);
static op_fn *const op_functions[PLAN_OPS] = {
        [PLAN_OP_CLONE] = do_clone,     [PLAN_OP_NEW_FS] = do_new_fs, [PLAN_OP_SETATTR] = do_setattr,
        [PLAN_OP_ATTACH] = do_attach,   [PLAN_OP_MKDIR] = do_mkdir,   [PLAN_OP_FILE] = do_file,
        [PLAN_OP_SYMLINK] = do_symlink, [PLAN_OP_PIVOT] = do_pivot,
};

int apply_mounts(const struct plan *plan, struct err *err) {
        cleanup(slots_done) struct slots slots = { .n = 0 };
        mode_t before = umask(0);
        int r = 0;
        for (size_t i = 0; i < plan->ops.n && r == 0; i++) {
                const struct plan_op *op = &plan->ops.p[i];

                r = op_functions[op->kind](&slots, op);
                if (r < 0)
                        err_set(err, -r, "files: %s %s%s%s: %s", plan_op_name(op->kind), text_or(op->source, ""),
                                op->source && op->target ? " at " : "", text_or(op->target, ""), strerror(-r));
        }

        umask(before);
        return r;
}
