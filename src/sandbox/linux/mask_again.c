/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks files that appeared at a denied path. The creator of a user namespace has every privilege over it, so a child
 * of the supervisor can enter and mount there; the sandbox's own processes, init included, have dropped all of that.
 * The child is in no process list of the sandbox, changes nothing outside the sandbox's mount namespace, and ends.
 *
 * Links in a path are followed as the sandbox would follow them. If a link of its own leads elsewhere, too much is
 * masked, for the sandbox alone.
 */
#include "sandbox/linux/mask_again.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 255, MOST = 254 };

struct masks {
        int file, dir;
};

static int clone_mask(int fs, const char *name) {
        const uint64_t closed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        struct mount_attr attr = { .attr_set = closed };
        int fd = open_tree(fs, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (fd >= 0 && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 && errno != ENOSYS)
                close_fd(&fd);
        return fd;
}

/* A file system with an empty file and an empty directory that nobody may open, as the plan has them. */
static int make_source(void) {
        cleanup(close_fd) int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
        if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", "4096", 0) < 0 ||
            fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "8", 0) < 0 ||
            fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -1;

        cleanup(close_fd) int source = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        cleanup(close_fd) int file = source < 0 ? -1 : openat(source, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0);

        if (file < 0 || mkdirat(source, "dir", 0) < 0)
                return -1;

        return take_fd(&source);
}

static bool is_mask(int fd, const struct statx *st) {
        struct statfs fs;
        const unsigned open_modes = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
        if ((st->stx_mode & open_modes) || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
                return false;
        /* A closed directory in the plan's own, which is read-only, is on the way to something that is granted. */
        return (st->stx_attributes & STATX_ATTR_MOUNT_ROOT) || (fs.f_flags & ST_RDONLY);
}

/* Covers the object at this path. 1: masked, 0: not there, or masked already. */
static int again_mask(int source, const char *path, int flags) {
        cleanup(close_fd) int place = open(path, O_PATH | O_CLOEXEC | flags);
        struct statx st;

        if (place < 0) { /* what cannot be reached with every privilege cannot be reached without */
                if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP)
                        return 0;
                return -errno;
        }
        if (statx(place, "", AT_EMPTY_PATH, STATX_MODE, &st) < 0)
                return -errno;
        if (is_mask(place, &st))
                return 0;

        cleanup(close_fd) int cover = clone_mask(source, S_ISDIR(st.stx_mode) ? "dir" : "file");
        if (cover < 0 || move_mount(cover, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
                if (errno == ENOENT)
                        return 0;
                return -errno;
        } /* gone again */
        if (!S_ISLNK(st.stx_mode))
                return 1;

        int r = again_mask(source, path, 0);
        if (r < 0)
                return r;

        return 1;
}

static int again_work(int mount_ns, char *const *paths, size_t n, size_t first) {
        cleanup(close_fd) int owner = ioctl(mount_ns, NS_GET_USERNS);
        if (owner < 0 || setns(owner, CLONE_NEWUSER) < 0 || setns(mount_ns, CLONE_NEWNS) < 0)
                return -errno;

        cleanup(close_fd) int source = make_source();
        if (source < 0)
                return -errno;

        int masked = 0;

        for (size_t i = 0; i < n; i++) {
                int r = again_mask(source, paths[(first + i) % n], O_NOFOLLOW);
                if (r < 0)
                        return r;
                masked += r;
        }

        return masked;
}

int mask_again(int mount_ns, char *const *paths, size_t n, size_t first) {
        pid_t child = fork();
        int status = 0;

        if (child < 0)
                return -errno;

        if (child == 0) {
                int r = again_work(mount_ns, paths, n, first);
                if (r < 0)
                        _exit(FAILED);

                _exit(r < MOST ? r : MOST);
        }

        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;

        if (WIFEXITED(status) && WEXITSTATUS(status) != FAILED)
                return WEXITSTATUS(status);

        return -EIO;
}
