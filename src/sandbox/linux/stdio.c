/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/stdio.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/mounts_classic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char place[] = "/dev/.stdin"; /* in the sandbox's own /dev */
static const uint64_t closed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

static bool same_file(int fd, int other) {
        struct stat a, b;

        return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The file by its name, as a mount of its own, closed for writing: now, or (*ret_later) when it is attached. -1: it has
 * no name. */
static int clone_input(bool *ret_later) {
        struct mount_attr attr = { .attr_set = closed };
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/fd/0", path, sizeof path - 1);

        if (n <= 0 || path[0] != '/')
                return -1;

        path[n] = '\0';
        cleanup(close_fd) int tree =
            (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        if (tree < 0 || !same_file(tree, STDIN_FILENO))
                return -1;
        *ret_later = syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0;
        if (*ret_later && errno != ENOSYS)
                return -1;

        return take_fd(&tree);
}

void stdio_take(struct stdio *stdio) {
        struct stat st;
        int flags = fcntl(STDIN_FILENO, F_GETFL);

        if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH))
                return;
        if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode))
                stdio->tree = clone_input(&stdio->later);
}

/* Before Linux 5.12 only an attached mount can be closed. */
static int close_placed(struct err *err) {
        cleanup(close_fd) int root = open(place, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        int r = root < 0 ? -errno : mounts_classic_set(root, closed, false);

        if (r < 0)
                return err_set(err, -r, "standard input: close its mount: %s", strerror(-r));

        return 0;
}

/* Where it stands, and how it was opened. */
static int open_placed(struct err *err) {
        const int kept = O_NONBLOCK | O_DIRECT | O_NOATIME;
        int flags = fcntl(STDIN_FILENO, F_GETFL);
        cleanup(close_fd) int fd = open(place, O_RDONLY | O_CLOEXEC | (flags & kept));

        if (fd < 0)
                return err_errno(err, "standard input: open it again");
        if (lseek(fd, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET) < 0)
                return err_errno(err, "standard input: seek");

        return take_fd(&fd);
}

int stdio_place(struct stdio *stdio, struct err *err) {
        if (stdio->tree < 0)
                return 0;

        cleanup(close_fd) int point = open(place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (point < 0)
                return err_errno(err, "standard input: %s", place);
        if (syscall(SYS_move_mount, stdio->tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return err_errno(err, "standard input: mount it");

        close_fd(&stdio->tree);
        int r = 0;

        if (stdio->later)
                r = close_placed(err);

        if (r < 0)
                return r;

        /* One that this user may not open by its name stays as it is: then it is not this user's to change either. */
        struct err why = { 0 };
        cleanup(close_fd) int fd = open_placed(&why);
        if (fd < 0) {
                if (why.code == EACCES || why.code == EPERM)
                        return 0;
                return err_set(err, why.code, "%s", err_text(&why));
        }

        stdio->original = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (stdio->original < 0 || dup2(fd, STDIN_FILENO) < 0)
                return err_errno(err, "standard input: replace it");

        return 0;
}

void stdio_carry_over(const struct stdio *stdio) {
        if (stdio->original >= 0)
                (void)lseek(stdio->original, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET);
}
