/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker_ops.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fd_link link_to(int fd) {
        struct fd_link link;
        snprintf(link.path, sizeof link.path, "/proc/self/fd/%d", fd);
        return link;
}

static int result_of(long r) {
        if (r < 0)
                return -errno;

        return 0;
}

int broker_find(struct held *held, int dirfd, __u64 address, enum walk_mode mode, struct place *ret) {
        int r = tracee_copy_path(&held->tracee, address, held->path, sizeof held->path);
        if (r < 0) {
                held->path[0] = '\0';
                return r;
        }

        r = walk(&held->tracee, dirfd, held->path, mode, ret);
        if (r < 0)
                return r;

        memcpy(held->path, ret->path, strlen(ret->path) + 1);
        return 0;
}

void broker_report_about(struct held *held, const struct place *place) {
        memcpy(held->path, place->path, strlen(place->path) + 1);
}

/* A place for a new name. What is there already is found out by the call itself. */
static int find_new(struct held *held, int dirfd, __u64 address, mode_t kind, struct place *ret) {
        int r;

        held->writes = true;
        r = broker_find(held, dirfd, address, WALK_PARENT, ret);
        if (r < 0)
                return r;

        if (ret->dir < 0 || (ret->object >= 0 && !ret->parent))
                r = -EEXIST;
        else
                r = judge_new(held, ret, kind);
        if (r == 0 && ret->wants_directory && kind != S_IFDIR)
                r = faccessat(ret->dir, ret->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST : -ENOENT;

        if (r == -EACCES && held->glob && faccessat(ret->dir, ret->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                held->glob = NULL; /* nothing would have changed */
                r = -EEXIST;
        }

        return r;
}

static bool is_kind(int fd, mode_t kind) {
        struct stat st;
        return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* What was made without a descriptor of it. */
static int ops_made(struct held *held, const struct place *place, long r) {
        if (r < 0)
                return -errno;
        judge_made(held, place, -1);
        return 0;
}

/* If a directory were moved to a place that is swept at the end, the files that globs protect in it would be lost. */
static bool is_swept(const struct held *held, const char *path) {
        const struct path_rule *rule = NULL;
        return held->broker->rules && path_rules_access(held->broker->rules, path, &rule) != PATH_WRITE && rule &&
               rule->protected;
}

static int judge_rename(struct held *held, const struct place *from, const struct place *to, bool directory) {
        const char *glob;
        int r;

        r = judge_change(held, to);
        if (r < 0)
                return r;

        r = judge_change(held, from);
        glob = r == 0 ? broker_denies_move(held->broker->rules, from->path, to->path) : NULL;
        if (glob) {
                held->glob = glob;
                r = -EACCES;
        }

        if (r < 0) {
                broker_report_about(held, from);
                return r;
        }

        if (directory && is_swept(held, to->path))
                return -EACCES;

        r = judge_marked_move(held, from->path, to->path, directory);
        if (r < 0)
                return r;

        return judge_move(held, from, to, directory);
}

/* Performs the judged call and records it; the new place of a repository is recorded before. */
static int rename_judged(struct held *held, const struct place *from, const struct place *to, unsigned flags,
                         const bool directory[static 2]) {
        bool exchange = flags & RENAME_EXCHANGE, moves = directory[0] || directory[1];
        int r = 0;

        if (moves)
                r = judge_moving(held, from, to, exchange);

        if (r < 0)
                return r;

        held->replaces = exchange;
        if (!exchange)
                note_replacing(held, to);

        note_gone(held, from);
        note_gone(held, to);

        r = result_of(syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, flags));
        if (r < 0) {
                if (moves)
                        note_not_moved(held);
                return r;
        }

        judge_moved(held, from, to, directory[0]);
        if (exchange)
                judge_moved(held, to, from, directory[1]);
        if (moves)
                note_moved(held, from, to, exchange);

        return 0;
}

static int do_rename(struct held *held, int from_dirfd, __u64 from_address, int to_dirfd, __u64 to_address,
                     unsigned flags) {
        cleanup(place_done) struct place from = { .object = -1, .dir = -1 }, to = { .object = -1, .dir = -1 };
        bool exchange = flags & RENAME_EXCHANGE, directory[2] = { false };
        int r;

        held->writes = true;
        r = broker_find(held, from_dirfd, from_address, WALK_NOFOLLOW, &from);
        if (r < 0)
                return r;

        r = broker_find(held, to_dirfd, to_address, exchange ? WALK_NOFOLLOW : WALK_PARENT, &to);
        if (r < 0)
                return r;

        const struct plan_copy_of *copy = copy_of_lock(held, &from);
        if (copy && copy_is_locked(held, &from)) {
                if (flags & ~RENAME_NOREPLACE)
                        return -EINVAL;
                return copy_lock_rename(held, copy, &to);
        }
        if (from.object < 0 || (exchange && to.object < 0))
                return -ENOENT;
        if (from.dir < 0 || to.dir < 0)
                return -EBUSY;

        held->moves = true;
        directory[0] = is_kind(from.object, S_IFDIR);
        r = judge_rename(held, &from, &to, directory[0]);
        if (r == 0 && exchange) {
                directory[1] = is_kind(to.object, S_IFDIR);
                r = judge_rename(held, &to, &from, directory[1]);
        }

        if (r < 0)
                return r;
        if ((from.wants_directory || to.wants_directory) && !directory[0])
                return -ENOTDIR;

        return rename_judged(held, &from, &to, flags, directory);
}

static int op_renameat(struct held *held) {
        return do_rename(held, (int)held->args[0], held->args[1], (int)held->args[2], held->args[3], 0);
}

static int op_renameat2(struct held *held) {
        return do_rename(held, (int)held->args[0], held->args[1], (int)held->args[2], held->args[3],
                         (unsigned)held->args[4]);
}

/* With an empty path it is the descriptor itself, which may have no name yet (O_TMPFILE). */
static int find_linked(struct held *held, int dirfd, __u64 address, int flags, struct place *ret) {
        char first = 1;
        int r;

        if (flags & AT_EMPTY_PATH) {
                r = tracee_read(&held->tracee, address, &first, 1);
                if (r < 0)
                        return r;
        }

        if (first)
                return broker_find(held, dirfd, address, flags & AT_SYMLINK_FOLLOW ? WALK_FOLLOW : WALK_NOFOLLOW, ret);

        r = walk_descriptor(&held->tracee, dirfd, ret);
        if (r == 0)
                memcpy(held->path, ret->path, strlen(ret->path) + 1);

        return r;
}

static int do_link(struct held *held, int from_dirfd, __u64 from_address, int to_dirfd, __u64 to_address, int flags) {
        cleanup(place_done) struct place from = { .object = -1, .dir = -1 }, to = { .object = -1, .dir = -1 };
        int r;

        r = find_new(held, to_dirfd, to_address, S_IFREG, &to);
        if (r < 0)
                return r;

        r = find_linked(held, from_dirfd, from_address, flags, &from);
        if (r < 0)
                return r;
        if (from.object < 0)
                return -ENOENT;

        r = judge_change(held, &from);
        if (r == 0)
                r = judge_object(held, from.object);
        if (r == 0)
                r = judge_parts(held, &from);
        if (r == 0)
                r = judge_marked_move(held, from.path, to.path, false);
        if (r < 0)
                return r;

        struct fd_link link = link_to(from.object);
        if (linkat(AT_FDCWD, link.path, to.dir, to.name, AT_SYMLINK_FOLLOW) < 0)
                return -errno;

        judge_made(held, &to, from.object);
        note_linked(held, from.object);

        return 0;
}

static int op_linkat(struct held *held) {
        return do_link(held, (int)held->args[0], held->args[1], (int)held->args[2], held->args[3], (int)held->args[4]);
}

static int do_symlink(struct held *held, __u64 text_address, int dirfd, __u64 address) {
        char text[PATH_MAX];
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r;

        r = tracee_read_path(&held->tracee, text_address, text, sizeof text);
        if (r == 0)
                r = find_new(held, dirfd, address, S_IFLNK, &place);
        if (r < 0)
                return r;

        return ops_made(held, &place, symlinkat(text, place.dir, place.name));
}

static int op_symlinkat(struct held *held) {
        return do_symlink(held, held->args[0], (int)held->args[1], held->args[2]);
}

static int do_mkdir(struct held *held, int dirfd, __u64 address, mode_t mode) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_new(held, dirfd, address, S_IFDIR, &place);

        if (r < 0)
                return r;

        return ops_made(held, &place, mkdirat(place.dir, place.name, mode & 07777 & ~held->tracee.umask));
}

static int op_mkdirat(struct held *held) {
        return do_mkdir(held, (int)held->args[0], held->args[1], (mode_t)held->args[2]);
}

static int do_mknod(struct held *held, int dirfd, __u64 address, mode_t mode, dev_t device) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        int r = find_new(held, dirfd, address, S_IFREG, &place);

        if (r < 0)
                return r;

        return ops_made(held, &place, mknodat(place.dir, place.name, mode & ~held->tracee.umask, device));
}

static int op_mknodat(struct held *held) {
        return do_mknod(held, (int)held->args[0], held->args[1], (mode_t)held->args[2], (dev_t)held->args[3]);
}

static int do_unlink(struct held *held, int dirfd, __u64 address, int flags) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct stat st;
        int r;

        held->writes = true;
        r = broker_find(held, dirfd, address, WALK_PARENT, &place);
        if (r < 0)
                return r;
        if (place.dir < 0) {
                if (flags & AT_REMOVEDIR)
                        return -EINVAL;
                return -EISDIR;
        }

        if (copy_is_locked(held, &place))
                return copy_lock_remove(held, copy_of_lock(held, &place));

        r = judge_change(held, &place);
        if (r < 0 && held->glob && fstatat(place.dir, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
                held->glob = NULL;
                return -ENOENT;
        }

        if (r < 0)
                return r;

        if (place.wants_directory && !(flags & AT_REMOVEDIR)) {
                bool directory = fstatat(place.dir, place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
                if (directory)
                        return -EISDIR;

                return -ENOTDIR;
        }

        if (!(flags & AT_REMOVEDIR)) {
                note_unlinked(held, &place);
                note_gone(held, &place);
        }

        return result_of(unlinkat(place.dir, place.name, flags));
}

static int op_unlinkat(struct held *held) {
        return do_unlink(held, (int)held->args[0], held->args[1], (int)held->args[2]);
}

/* --- the older forms, where the architecture has them --- */

#ifdef SYS_open
static int op_rename(struct held *held) {
        return do_rename(held, AT_FDCWD, held->args[0], AT_FDCWD, held->args[1], 0);
}
static int op_link(struct held *held) {
        return do_link(held, AT_FDCWD, held->args[0], AT_FDCWD, held->args[1], 0);
}
static int op_symlink(struct held *held) {
        return do_symlink(held, held->args[0], AT_FDCWD, held->args[1]);
}
static int op_mkdir(struct held *held) {
        return do_mkdir(held, AT_FDCWD, held->args[0], (mode_t)held->args[1]);
}
static int op_mknod(struct held *held) {
        return do_mknod(held, AT_FDCWD, held->args[0], (mode_t)held->args[1], (dev_t)held->args[2]);
}
static int op_unlink(struct held *held) {
        return do_unlink(held, AT_FDCWD, held->args[0], 0);
}
static int op_rmdir(struct held *held) {
        return do_unlink(held, AT_FDCWD, held->args[0], AT_REMOVEDIR);
}
#endif

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* Newer than the libraries that are in use: they fall back to what is older. */
#define SYS_NEW_SETXATTRAT 463
#define SYS_NEW_REMOVEXATTRAT 466
#define SYS_NEW_FILE_SETATTR 469

/* The program must not lower the limits of init and of this process: a signal or a lack of descriptors at a chosen
 * moment would leave things half done. */
static int op_prlimit(struct held *held) {
        char task[48];

        snprintf(task, sizeof task, "/proc/self/task/%d", (int)held->args[0]);
        if (held->args[2] && ((int)held->args[0] == 1 || access(task, F_OK) == 0 || errno != ENOENT))
                return -EPERM;
        return OP_CONTINUE;
}

static int op_absent(struct held *held) {
        (void)held;
        return -ENOSYS;
}

const struct broker_op broker_ops[] = {
        { SYS_openat, "open", op_openat, OP_IF_ARG2_WRITES },
#ifdef SYS_open
        { SYS_open, "open", op_open, OP_IF_ARG1_WRITES },
        { SYS_unlink, "unlink", op_unlink, OP_ALWAYS },
        { SYS_mkdir, "mkdir", op_mkdir, OP_ALWAYS },
        { SYS_rename, "rename", op_rename, OP_ALWAYS },
        { SYS_creat, "open", op_creat, OP_ALWAYS },
        { SYS_link, "link", op_link, OP_ALWAYS },
        { SYS_symlink, "symlink", op_symlink, OP_ALWAYS },
        { SYS_mknod, "mknod", op_mknod, OP_ALWAYS },
        { SYS_rmdir, "rmdir", op_rmdir, OP_ALWAYS },
        { SYS_chmod, "chmod", op_chmod, OP_ALWAYS },
        { SYS_chown, "chown", op_chown, OP_ALWAYS },
        { SYS_lchown, "chown", op_lchown, OP_ALWAYS },
#endif
        { SYS_openat2, "open", op_openat2, OP_ALWAYS },
        { SYS_renameat2, "rename", op_renameat2, OP_ALWAYS },
#ifdef SYS_renameat
        { SYS_renameat, "rename", op_renameat, OP_ALWAYS },
#endif
        { SYS_linkat, "link", op_linkat, OP_ALWAYS },
        { SYS_symlinkat, "symlink", op_symlinkat, OP_ALWAYS },
        { SYS_mkdirat, "mkdir", op_mkdirat, OP_ALWAYS },
        { SYS_mknodat, "mknod", op_mknodat, OP_ALWAYS },
        { SYS_unlinkat, "unlink", op_unlinkat, OP_ALWAYS },
        { SYS_truncate, "truncate", op_truncate, OP_ALWAYS },
        { SYS_fchmodat, "chmod", op_fchmodat, OP_ALWAYS },
        { SYS_fchmodat2, "chmod", op_fchmodat2, OP_ALWAYS },
        { SYS_fchmod, "chmod", op_fchmod, OP_IF_MODE_GIVES },
        { SYS_fchown, "chown", op_fchown, OP_NEVER },
        { SYS_fchownat, "chown", op_fchownat, OP_ALWAYS },
        { SYS_setxattr, "setxattr", op_setxattr, OP_ALWAYS },
        { SYS_lsetxattr, "setxattr", op_lsetxattr, OP_ALWAYS },
        { SYS_fsetxattr, "setxattr", op_fsetxattr, OP_ALWAYS },
        { SYS_removexattr, "removexattr", op_removexattr, OP_ALWAYS },
        { SYS_lremovexattr, "removexattr", op_lremovexattr, OP_ALWAYS },
        { SYS_fremovexattr, "removexattr", op_fremovexattr, OP_ALWAYS },
        { SYS_NEW_SETXATTRAT, "setxattr", op_absent, OP_ALWAYS },
        { SYS_NEW_REMOVEXATTRAT, "removexattr", op_absent, OP_ALWAYS },
        { SYS_NEW_FILE_SETATTR, "chattr", op_absent, OP_ALWAYS },
        { SYS_ioctl, "chattr", op_ioctl, OP_IF_ARG1_FLAGS },
        { SYS_bind, "bind", op_bind, OP_ALWAYS },
        { SYS_umask, "umask", op_umask, OP_ALWAYS },
        { SYS_prlimit64, "prlimit", op_prlimit, OP_IF_ARG0_NAMES },
};
const size_t broker_ops_n = sizeof broker_ops / sizeof broker_ops[0];
