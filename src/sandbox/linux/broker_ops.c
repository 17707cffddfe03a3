/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker_ops.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WAITING_OPENS_MAX = 64 };

struct fd_link {
        char path[32];
};

/* The object itself, whatever its name is by now: for calls that take only a path. */
static struct fd_link link_to(int fd) {
        struct fd_link l;
        snprintf(l.path, sizeof l.path, "/proc/self/fd/%d", fd);
        return l;
}

static int result_of(long r) {
        return r < 0 ? -errno : 0;
}

/* Reads the path argument and finds what it names; remembers it for the report. */
static int find(struct held *h, int dirfd, __u64 address, enum walk_mode mode, struct place *ret) {
        int r = tracee_read_path(&h->tracee, address, h->path, sizeof h->path);
        if (r < 0) {
                h->path[0] = '\0';
                return r;
        }
        struct place p;
        r = walk(&h->tracee, dirfd, h->path, mode, &p);
        if (r < 0)
                return r;
        memcpy(h->path, p.path, strlen(p.path) + 1);
        *ret = p;
        return 0;
}

static int judge(struct held *h, const char *glob) {
        h->glob = glob;
        return glob ? -EACCES : 0;
}

static int find_for_change(struct held *h, int dirfd, __u64 address, enum walk_mode mode, struct place *ret) {
        h->writes = true;
        struct place p;
        int r = find(h, dirfd, address, mode, &p);
        if (r < 0)
                return r;
        r = judge(h, broker_denies(h->broker->rules, p.path, true));
        if (r < 0)
                place_done(&p);
        else
                *ret = p;
        return r;
}

/* A place for a new name: -EEXIST when something is there. */
static int find_for_creation(struct held *h, int dirfd, __u64 address, struct place *ret) {
        struct place p;
        int r = find_for_change(h, dirfd, address, WALK_NOFOLLOW, &p);
        if (r < 0)
                return r;
        if (p.object >= 0 || p.dir < 0) {
                place_done(&p);
                return -EEXIST;
        }
        *ret = p;
        return 0;
}

static bool is_kind(int fd, mode_t kind) {
        struct stat st;
        return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* --- open ------------------------------------------------------------------------------------------------------------
 */

struct waiting_open {
        struct tracee tracee; /* its id and notify descriptor */
        int object, flags;
};
static int waiting_opens;

static void *open_and_wait(void *arg) {
        struct waiting_open *w = arg;
        struct fd_link link = link_to(w->object);
        int fd = open(link.path, w->flags | O_CLOEXEC);
        int r = fd < 0 ? -errno : broker_pass_fd(&w->tracee, fd, w->flags & O_CLOEXEC);
        if (r < 0)
                broker_answer(&w->tracee, r);
        close_fd(&fd);
        close_fd(&w->object);
        free(w);
        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
        return NULL;
}

/* Opening a FIFO waits for its other end, which may be opened by the next call: not in this thread. */
static int open_in_thread(const struct held *h, struct place *p, int flags) {
        if (__atomic_add_fetch(&waiting_opens, 1, __ATOMIC_RELAXED) > WAITING_OPENS_MAX) {
                __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
                return -ENFILE;
        }
        struct waiting_open *w = malloc(sizeof *w);
        pthread_t thread;
        if (w) {
                *w = (struct waiting_open){ .tracee = h->tracee, .object = take_fd(&p->object), .flags = flags };
                if (pthread_create(&thread, NULL, open_and_wait, w) == 0) {
                        pthread_detach(thread);
                        return OP_ANSWERED;
                }
                close_fd(&w->object);
                free(w);
        }
        __atomic_sub_fetch(&waiting_opens, 1, __ATOMIC_RELAXED);
        return -ENOMEM;
}

/* The kernel hands over no O_PATH descriptor. One that can be read serves the same ends for what may be read anyway;
 * for links, devices and sockets there is none. */
static int open_as_place(struct held *h, struct place *p, int flags) {
        if (!is_kind(p->object, S_IFDIR) && !is_kind(p->object, S_IFREG))
                return -EOPNOTSUPP;
        struct fd_link link = link_to(p->object);
        cleanup(close_fd) int fd = open(link.path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : broker_pass_fd(&h->tracee, fd, flags & O_CLOEXEC);
}

static int open_existing(struct held *h, struct place *p, int flags, mode_t mode) {
        if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
                return -EEXIST;
        if (p->wants_directory && !is_kind(p->object, S_IFDIR))
                return -ENOTDIR;
        if (flags & O_PATH)
                return (flags & O_DIRECTORY) && !is_kind(p->object, S_IFDIR) ? -ENOTDIR : open_as_place(h, p, flags);
        if (is_kind(p->object, S_IFLNK))
                return -ELOOP;
        if ((flags & O_CREAT) && is_kind(p->object, S_IFDIR))
                return -EISDIR;
        flags &= ~(O_CREAT | O_EXCL | O_NOFOLLOW);
        if (is_kind(p->object, S_IFIFO) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR)
                return open_in_thread(h, p, flags);
        struct fd_link link = link_to(p->object);
        cleanup(close_fd) int fd = open(link.path, flags | O_CLOEXEC, mode);
        return fd < 0 ? -errno : broker_pass_fd(&h->tracee, fd, flags & O_CLOEXEC);
}

static int open_new(struct held *h, struct place *p, int flags, mode_t mode) {
        if (!(flags & O_CREAT) || (flags & O_PATH))
                return -ENOENT;
        if (p->wants_directory)
                return -EISDIR;
        cleanup(close_fd) int fd = openat(p->dir, p->name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
        return fd < 0 ? -errno : broker_pass_fd(&h->tracee, fd, flags & O_CLOEXEC);
}

static int do_open(struct held *h, int dirfd, __u64 address, int flags, mode_t mode) {
        bool nofollow = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
        bool temporary = (flags & O_TMPFILE) == O_TMPFILE;
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find(h, dirfd, address, nofollow ? WALK_NOFOLLOW : WALK_FOLLOW, &p);
        if (r < 0)
                return r;
        h->writes = !(flags & O_PATH) && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) || temporary ||
                                          ((flags & O_CREAT) && p.object < 0));
        r = judge(h, broker_denies(h->broker->rules, p.path, h->writes));
        if (r < 0)
                return r;
        mode &= 07777 & ~h->tracee.umask;
        return p.object >= 0 ? open_existing(h, &p, flags, mode) : open_new(h, &p, flags, mode);
}

static int op_openat(struct held *h) {
        return do_open(h, (int)h->args[0], h->args[1], (int)h->args[2], (mode_t)h->args[3]);
}

/* Its resolve flags would have to be kept as well; programs fall back to openat. */
static int op_openat2(struct held *h) {
        (void)h;
        return -ENOSYS;
}

/* --- names -----------------------------------------------------------------------------------------------------------
 */

/* A place that is swept at the end would take with it what globs keep in a directory that was moved there. */
static bool is_swept(const struct held *h, const char *path) {
        const struct path_rule *rule = NULL;
        return h->broker->rules && path_rules_access(h->broker->rules, path, &rule) != PATH_WRITE && rule &&
               rule->protected;
}

static int do_rename(struct held *h, int from_dirfd, __u64 from_address, int to_dirfd, __u64 to_address,
                     unsigned flags) {
        cleanup(place_done) struct place from = { .object = -1, .dir = -1 }, to = { .object = -1, .dir = -1 };
        h->writes = true;
        int r = find(h, to_dirfd, to_address, WALK_NOFOLLOW, &to);
        if (r < 0)
                return r;
        r = judge(h, broker_denies(h->broker->rules, to.path, true));
        if (r < 0)
                return r;
        r = find(h, from_dirfd, from_address, WALK_NOFOLLOW, &from);
        if (r < 0)
                return r;
        if (from.object < 0)
                return -ENOENT;
        if (from.dir < 0 || to.dir < 0)
                return -EBUSY;
        r = judge(h, broker_denies_move(h->broker->rules, from.path, to.path));
        if (r == 0 && (flags & RENAME_EXCHANGE))
                r = judge(h, broker_denies_move(h->broker->rules, to.path, from.path));
        if (r < 0)
                return r;
        if ((from.wants_directory || to.wants_directory) && !is_kind(from.object, S_IFDIR))
                return -ENOTDIR;
        if ((is_kind(from.object, S_IFDIR) && is_swept(h, to.path)) ||
            ((flags & RENAME_EXCHANGE) && is_swept(h, from.path)))
                return -EACCES;
        return result_of(syscall(SYS_renameat2, from.dir, from.name, to.dir, to.name, flags));
}

static int op_renameat(struct held *h) {
        return do_rename(h, (int)h->args[0], h->args[1], (int)h->args[2], h->args[3], 0);
}

static int op_renameat2(struct held *h) {
        return do_rename(h, (int)h->args[0], h->args[1], (int)h->args[2], h->args[3], (unsigned)h->args[4]);
}

static int do_link(struct held *h, int from_dirfd, __u64 from_address, int to_dirfd, __u64 to_address, int flags) {
        cleanup(place_done) struct place from = { .object = -1, .dir = -1 }, to = { .object = -1, .dir = -1 };
        int r = find_for_creation(h, to_dirfd, to_address, &to);
        if (r < 0)
                return r;
        r = find_for_change(h, from_dirfd, from_address, flags & AT_SYMLINK_FOLLOW ? WALK_FOLLOW : WALK_NOFOLLOW,
                            &from);
        if (r < 0)
                return r;
        if (from.object < 0)
                return -ENOENT;
        struct fd_link link = link_to(from.object);
        return result_of(linkat(AT_FDCWD, link.path, to.dir, to.name, AT_SYMLINK_FOLLOW));
}

static int op_linkat(struct held *h) {
        return do_link(h, (int)h->args[0], h->args[1], (int)h->args[2], h->args[3], (int)h->args[4]);
}

static int do_symlink(struct held *h, __u64 text_address, int dirfd, __u64 address) {
        char text[PATH_MAX];
        int r = tracee_read_path(&h->tracee, text_address, text, sizeof text);
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        if (r == 0)
                r = find_for_creation(h, dirfd, address, &p);
        return r < 0 ? r : result_of(symlinkat(text, p.dir, p.name));
}

static int op_symlinkat(struct held *h) {
        return do_symlink(h, h->args[0], (int)h->args[1], h->args[2]);
}

static int do_mkdir(struct held *h, int dirfd, __u64 address, mode_t mode) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_for_creation(h, dirfd, address, &p);
        return r < 0 ? r : result_of(mkdirat(p.dir, p.name, mode & 07777 & ~h->tracee.umask));
}

static int op_mkdirat(struct held *h) {
        return do_mkdir(h, (int)h->args[0], h->args[1], (mode_t)h->args[2]);
}

static int do_mknod(struct held *h, int dirfd, __u64 address, mode_t mode, dev_t device) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_for_creation(h, dirfd, address, &p);
        return r < 0 ? r : result_of(mknodat(p.dir, p.name, mode & ~h->tracee.umask, device));
}

static int op_mknodat(struct held *h) {
        return do_mknod(h, (int)h->args[0], h->args[1], (mode_t)h->args[2], (dev_t)h->args[3]);
}

static int do_unlink(struct held *h, int dirfd, __u64 address, int flags) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_for_change(h, dirfd, address, WALK_NOFOLLOW, &p);
        if (r < 0)
                return r;
        if (p.dir < 0)
                return flags & AT_REMOVEDIR ? -EINVAL : -EISDIR;
        if (p.wants_directory && !(flags & AT_REMOVEDIR))
                return is_kind(p.object, S_IFDIR) ? -EISDIR : -ENOTDIR;
        return result_of(unlinkat(p.dir, p.name, flags));
}

static int op_unlinkat(struct held *h) {
        return do_unlink(h, (int)h->args[0], h->args[1], (int)h->args[2]);
}

/* --- changes to what is there ----------------------------------------------------------------------------------------
 */

static int op_truncate(struct held *h) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_for_change(h, AT_FDCWD, h->args[0], WALK_FOLLOW, &p);
        if (r < 0 || p.object < 0)
                return r < 0 ? r : -ENOENT;
        struct fd_link link = link_to(p.object);
        return result_of(truncate(link.path, (off_t)h->args[1]));
}

static int do_chmod(struct held *h, int dirfd, __u64 address, mode_t mode) {
        cleanup(place_done) struct place p = { .object = -1, .dir = -1 };
        int r = find_for_change(h, dirfd, address, WALK_FOLLOW, &p);
        if (r < 0 || p.object < 0)
                return r < 0 ? r : -ENOENT;
        struct fd_link link = link_to(p.object);
        return result_of(chmod(link.path, mode & 07777));
}

static int op_fchmodat(struct held *h) {
        return do_chmod(h, (int)h->args[0], h->args[1], (mode_t)h->args[2]);
}

/* --- the older forms, where the architecture has them
 * ------------------------------------------------------------------ */

#ifdef SYS_open
static int op_open(struct held *h) {
        return do_open(h, AT_FDCWD, h->args[0], (int)h->args[1], (mode_t)h->args[2]);
}
static int op_creat(struct held *h) {
        return do_open(h, AT_FDCWD, h->args[0], O_CREAT | O_WRONLY | O_TRUNC, (mode_t)h->args[1]);
}
static int op_rename(struct held *h) {
        return do_rename(h, AT_FDCWD, h->args[0], AT_FDCWD, h->args[1], 0);
}
static int op_link(struct held *h) {
        return do_link(h, AT_FDCWD, h->args[0], AT_FDCWD, h->args[1], 0);
}
static int op_symlink(struct held *h) {
        return do_symlink(h, h->args[0], AT_FDCWD, h->args[1]);
}
static int op_mkdir(struct held *h) {
        return do_mkdir(h, AT_FDCWD, h->args[0], (mode_t)h->args[1]);
}
static int op_mknod(struct held *h) {
        return do_mknod(h, AT_FDCWD, h->args[0], (mode_t)h->args[1], (dev_t)h->args[2]);
}
static int op_unlink(struct held *h) {
        return do_unlink(h, AT_FDCWD, h->args[0], 0);
}
static int op_rmdir(struct held *h) {
        return do_unlink(h, AT_FDCWD, h->args[0], AT_REMOVEDIR);
}
static int op_chmod(struct held *h) {
        return do_chmod(h, AT_FDCWD, h->args[0], (mode_t)h->args[1]);
}
#endif

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* With AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH it does more than chmod; the C library falls back to the older call. */
static int op_fchmodat2(struct held *h) {
        return h->args[3] == 0 ? op_fchmodat(h) : -ENOSYS;
}

const struct broker_op broker_ops[] = {
        { SYS_openat, "open", op_openat },
        { SYS_openat2, "open", op_openat2 },
        { SYS_renameat2, "rename", op_renameat2 },
#ifdef SYS_renameat
        { SYS_renameat, "rename", op_renameat },
#endif
        { SYS_linkat, "link", op_linkat },
        { SYS_symlinkat, "symlink", op_symlinkat },
        { SYS_mkdirat, "mkdir", op_mkdirat },
        { SYS_mknodat, "mknod", op_mknodat },
        { SYS_unlinkat, "unlink", op_unlinkat },
        { SYS_truncate, "truncate", op_truncate },
        { SYS_fchmodat, "chmod", op_fchmodat },
        { SYS_fchmodat2, "chmod", op_fchmodat2 },
#ifdef SYS_open
        { SYS_open, "open", op_open },
        { SYS_creat, "open", op_creat },
        { SYS_rename, "rename", op_rename },
        { SYS_link, "link", op_link },
        { SYS_symlink, "symlink", op_symlink },
        { SYS_mkdir, "mkdir", op_mkdir },
        { SYS_mknod, "mknod", op_mknod },
        { SYS_unlink, "unlink", op_unlink },
        { SYS_rmdir, "rmdir", op_rmdir },
        { SYS_chmod, "chmod", op_chmod },
#endif
};
const size_t broker_ops_n = sizeof broker_ops / sizeof broker_ops[0];
