/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in a user namespace that has the host user's id and the guest's, with the capabilities to change the owner of
 * what belongs to either. The guest may be at work meanwhile. So each entry is held by a descriptor before it is looked
 * at, and changed by that: whatever the guest does with names, nothing else is changed. The owner is changed first:
 * from then on the guest cannot take the other changes back.
 */
#include "guest/guest_take.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/random.h"
#include "guest/guest_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { HOST_INSIDE = 0, DEPTH_MAX = 300, ROUNDS_MAX = 1 << 16 };

struct take {
        const struct sandbox_ids *ids;
        const char *path;
        int top;
        bool again; /* something was moved up */
        size_t moved, left;
        int error; /* the first one */
};

static void take_failed(struct take *take, int error) {
        if (take->error == 0)
                take->error = error;
}

/* In a directory that hands on its group, what the guest made has a group that is not in the namespace, and no
 * capability counts for it. Its owner may give it the guest's own group. */
static int take_group(const struct take *take, int fd) {
        (void)setfsgid(take->ids->inner_gid);
        (void)setfsuid(take->ids->inner_uid);

        int r = fchownat(fd, "", (uid_t)-1, take->ids->inner_gid, AT_EMPTY_PATH) < 0 ? -errno : 0;

        (void)setfsuid(HOST_INSIDE);
        (void)setfsgid(HOST_INSIDE);
        return r;
}

static int take_owner(const struct take *take, int fd) {
        if (fchownat(fd, "", HOST_INSIDE, HOST_INSIDE, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != EPERM)
                return -errno;

        int r = take_group(take, fd);
        if (r < 0)
                return r;

        return fchownat(fd, "", HOST_INSIDE, HOST_INSIDE, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The kernel itself takes set-id bits away when the owner changes; here are the rest of them, and the permissions.
 * Lists of files and directories are the caller's part. A socket or a pipe of the guest's has none after this, and is
 * for its owner. */
static int take_mode(int fd, const struct stat *st) {
        char path[64];
        mode_t wanted = (st->st_mode & 0777) | 0600;

        if (S_ISLNK(st->st_mode))
                return 0;
        if (S_ISDIR(st->st_mode) || (st->st_mode & 0111))
                wanted |= 0100;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode)) {
                wanted &= 0700;
                if (removexattr(path, "system.posix_acl_access") < 0 && errno != ENODATA && errno != EOPNOTSUPP)
                        return -errno;
        }

        return chmod(path, wanted) < 0 ? -errno : 0;
}

static void take_tree(struct take *take, int fd, bool ours, unsigned depth);

/* To be taken in the next round, under a name that nothing there has. */
static void take_up(struct take *take, int parent, const char *name) {
        char up[32] = "deep-";

        random_id(up + 5, sizeof up - 5);
        if (renameat(parent, name, take->top, up) < 0) {
                take_failed(take, -errno);
                return;
        }

        take->again = true;
        take->moved++;
}

static void take_object(struct take *take, int parent, const char *name, int fd, unsigned depth) {
        struct stat st;
        int r = fstat(fd, &st) < 0 ? -errno : 0;
        bool its = r == 0 && st.st_uid == take->ids->inner_uid;

        if (its) {
                r = take_owner(take, fd);
                if (r == 0)
                        r = take_mode(fd, &st);
        }
        if (r < 0) {
                take_failed(take, r);
                return;
        }

        if (!S_ISDIR(st.st_mode))
                return;
        if (depth < DEPTH_MAX)
                take_tree(take, fd, its || st.st_uid == HOST_INSIDE, depth);
        else if (its)
                take_up(take, parent, name);
        else
                take->left++;
}

static void take_name(struct take *take, int parent, const char *name, unsigned depth) {
        cleanup(close_fd) int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                take_object(take, parent, name, fd, depth);
        else if (errno != ENOENT)
                take_failed(take, -errno);
}

/* A directory of somebody else's that is closed to the host user is left alone. */
static void take_tree(struct take *take, int fd, bool ours, unsigned depth) {
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *list = copy < 0 ? NULL : fdopendir(copy);

        if (!list) {
                int error = errno;

                close_fd(&copy);
                if (ours)
                        take_failed(take, -error);
                else
                        take->left++;
                return;
        }

        for (const struct dirent *entry; (entry = readdir(list));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        take_name(take, dirfd(list), entry->d_name, depth + 1);

        closedir(list);
}

static int take_inside(void *arg, struct err *err) {
        struct take *take = arg;
        cleanup(close_fd) int opened = -1;

        /* The guest may have closed a directory on the way. */
        if (take->top < 0)
                take->top = opened = path_open_at(AT_FDCWD, take->path, O_PATH, 0, PATH_NO_SYMLINKS);
        if (take->top < 0)
                return err_set(err, -take->top, "cannot open %s: %s", take->path, strerror(-take->top));

        take->again = true;
        for (unsigned round = 0; take->again && round < ROUNDS_MAX && take->error == 0; round++) {
                take->again = false;
                take_object(take, -1, NULL, take->top, 0);
        }

        if (take->moved)
                log_warning("%zu directories that the guest made too deep below %s lie in it now, as deep-*",
                            take->moved, take->path);
        if (take->left)
                log_warning("%zu directories below %s are not looked into: they are closed to you, or too deep",
                            take->left, take->path);
        if (take->error < 0)
                return err_set(err, -take->error, "cannot take back all that the guest made in %s: %s", take->path,
                               strerror(-take->error));

        return 0;
}

int guest_take(const struct guest *guest, const char *path, struct err *err) {
        /* With the host user's own groups, if possible. */
        cleanup(close_fd) int fd = path_open_at(AT_FDCWD, path, O_PATH, 0, PATH_NO_SYMLINKS);
        struct take take = { .ids = &guest->ids, .path = path, .top = fd };

        if (fd < 0 && fd != -EACCES)
                return err_set(err, -fd, "cannot open %s: %s", path, strerror(-fd));

        return guest_inside(guest, take_inside, &take, err);
}
