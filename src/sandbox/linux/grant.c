/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/grant.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child found, as its exit status. */
static int await_child(pid_t child) {
        int status = 0;

        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        if (!WIFEXITED(status))
                return -EIO;

        return -WEXITSTATUS(status);
}

/* --- on the host --- */

static int clone_object(const struct grant *grant) {
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
        struct stat st;

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -errno;

        cleanup(close_fd) int object = path_open_at(AT_FDCWD, grant->path, O_PATH | O_NOFOLLOW, 0, PATH_NO_SYMLINKS);
        if (object < 0)
                return object;
        if (fstat(object, &st) < 0)
                return -errno;
        if (st.st_dev != grant->dev || st.st_ino != grant->ino)
                return -ESTALE;

        cleanup(close_fd) int tree =
            open_tree(object, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
        if (tree < 0)
                return -errno;
        if (!grant->write)
                attr.attr_set |= MOUNT_ATTR_RDONLY;
        if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
                return -errno;

        return take_fd(&tree);
}

/* The object through its own mount, which has no name and nothing above it: by this descriptor nobody gets further, and
 * where the mount is read-only nobody writes. The user namespace of the child gives it no right to what lies outside.
 */
static int open_clone(int tree, int flags) {
        char link[32];

        snprintf(link, sizeof link, "/proc/self/fd/%d", tree);
        int fd = open(link, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a lease on it must not make us wait */

        if (fd < 0 && errno == EWOULDBLOCK)
                return -EBUSY;
        if (fd < 0)
                return -errno;

        if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags & ~O_ACCMODE) < 0) {
                int error = errno;
                close(fd);
                return -error;
        }

        return fd;
}

/* -errno, or 0 with the tree sent, or with `flags` what is in it, opened. */
static int send_clone(int channel, const struct grant *grant, const int *flags) {
        cleanup(close_fd) int tree = clone_object(grant);

        if (tree < 0)
                return tree;
        if (!flags)
                return fd_send(channel, STR("t"), &tree, 1);

        cleanup(close_fd) int object = open_clone(tree, *flags);
        if (object < 0)
                return object;

        return fd_send(channel, STR("o"), &object, 1);
}

static int fetch_clone(const struct grant *grant, const int *flags, int *ret) {
        int ends[2], r;
        size_t n = 0;
        char byte;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;

        cleanup(close_fd) int ours = ends[0];
        cleanup(close_fd) int theirs = ends[1];
        pid_t child = fork();
        if (child < 0)
                return -errno;
        if (child == 0)
                _exit(-send_clone(theirs, grant, flags));

        close_fd(&theirs);
        r = fd_receive(ours, &byte, 1, ret, 1, &n) == 1 && n == 1 ? 0 : -EIO;
        int ended = await_child(child);
        if (ended < 0)
                return ended;

        return r;
}

/* --- inside --- */

static int grant_enter(int mounts) {
        cleanup(close_fd) int owner = ioctl(mounts, NS_GET_USERNS);

        if (owner < 0 || setns(owner, CLONE_NEWUSER) < 0 || setns(mounts, CLONE_NEWNS) < 0)
                return -errno;
        return 0;
}

static int make_place(int dir, const char *name, bool directory) {
        if (directory) {
                if (mkdirat(dir, name, 0700) < 0)
                        return -errno;
                return 0;
        }
        cleanup(close_fd) int made = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (made < 0)
                return -errno;

        return 0;
}

/* The place, name by name: a link on the way is somebody's trick. */
static int open_place(const struct grant *grant) {
        struct str rest = str_of(grant->path), part;
        cleanup(close_fd) int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        while (at >= 0 && str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];
                bool last = rest.n == 0;

                if (part.n == 0)
                        continue;
                if (part.n > NAME_MAX)
                        return -ENAMETOOLONG;

                memcpy(name, part.p, part.n);
                name[part.n] = '\0';

                int next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0 && errno == ENOENT && grant->make) {
                        int r = make_place(at, name, !last || grant->directory);
                        if (r < 0 && r != -EEXIST)
                                return r;
                        next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                }

                if (next < 0)
                        return -errno;

                close_fd(&at);
                at = next;

                struct stat st;
                if (fstat(at, &st) < 0)
                        return -errno;
                if (S_ISLNK(st.st_mode))
                        return -ELOOP;
                if ((!last || grant->directory) && !S_ISDIR(st.st_mode))
                        return -ENOTDIR;
                if (last && !grant->directory && S_ISDIR(st.st_mode))
                        return -EISDIR;
        }

        if (at < 0)
                return -errno;

        return take_fd(&at);
}

static int grant_attach(int mounts, const struct grant *grant, int tree) {
        int r = grant_enter(mounts);
        if (r < 0)
                return r;

        cleanup(close_fd) int place = open_place(grant);
        if (place < 0)
                return place;
        if (move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return -errno;

        return 0;
}

static int grant_explain(const struct grant *grant, int error, struct err *err) {
        if (error == -ELOOP)
                return err_set(err, ELOOP, "%s: there is a link on the way to it", grant->path);
        if (error == -ESTALE)
                return err_set(err, ESTALE, "%s was replaced by something else meanwhile", grant->path);
        if (error == -ENOENT)
                return err_set(err, ENOENT,
                               "%s cannot be opened in the sandbox: it has no such name to mount it on; a program that "
                               "waits for a file there gets it with --scope once",
                               grant->path);
        return err_set(err, -error, "%s cannot be opened in the sandbox: %s", grant->path, strerror(-error));
}

int grant_mount(int mounts, const struct grant *grant, int *ret, struct err *err) {
        cleanup(close_fd) int tree = -1;
        int r = fetch_clone(grant, NULL, &tree);

        if (r == 0) {
                pid_t child = fork();
                if (child < 0)
                        return err_errno(err, "cannot open %s in the sandbox", grant->path);
                if (child == 0)
                        _exit(-grant_attach(mounts, grant, tree));

                r = await_child(child);
        }

        if (r < 0)
                return grant_explain(grant, r, err);

        *ret = take_fd(&tree); /* attached, it is the mount inside */
        return 0;
}

int grant_open(const struct grant *grant, int flags, int *ret, struct err *err) {
        const int kept = O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_NOATIME;
        int fd = -1, wanted = flags & kept;
        int r;

        if (grant->directory || (!grant->write && (wanted & O_ACCMODE) != O_RDONLY))
                return err_set(err, EINVAL, "%s cannot be opened once, only for the sandbox", grant->path);

        r = fetch_clone(grant, &wanted, &fd);
        if (r < 0) {
                close_fd(&fd);
                return grant_explain(grant, r, err);
        }

        *ret = fd;
        return 0;
}

/* By the mount itself, as its name in the host's /proc. The path inside leads through directories that the sandbox may
 * have moved, and links that it may have put there, to any other mount, such as one that hides a file. */
static int grant_detach(int mounts, int mount) {
        cleanup(close_fd) int names = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char name[16];

        if (names < 0)
                return -errno;

        int r = grant_enter(mounts);
        if (r < 0)
                return r;
        if (fchdir(names) < 0)
                return -errno;

        snprintf(name, sizeof name, "%d", mount);
        if (umount2(name, MNT_DETACH) < 0)
                return -errno;

        return 0;
}

int grant_unmount(int mounts, int mount, const char *path, struct err *err) {
        pid_t child = fork();
        int r;

        if (child < 0)
                return err_errno(err, "cannot close %s in the sandbox", path);
        if (child == 0)
                _exit(-grant_detach(mounts, mount));

        r = await_child(child);
        if (r < 0)
                return err_set(err, -r, "%s cannot be closed in the sandbox: %s", path, strerror(-r));

        return 0;
}
