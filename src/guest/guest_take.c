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
#include "base/paths/path.h"
#include "base/random.h"
#include "base/vec.h"
#include "guest/access_list.h"
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

enum { HOST_INSIDE = 0, DEPTH_MAX = 300, ROUNDS_MAX = 1 << 16, UP_NAME = 32 };

/* A name that was given to something brought up. */
struct up {
        char name[UP_NAME];
        bool below;
};

struct take {
        const struct sandbox_ids *ids;
        const char *path;
        bool granted; /* the guest gets it again */
        int top;
        VEC(struct up) up; /* not yet looked into */
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

        if (fchownat(fd, "", HOST_INSIDE, HOST_INSIDE, AT_EMPTY_PATH) < 0)
                return -errno;

        return 0;
}

static int take_list(const char *path, const char *name) {
        if (removexattr(path, name) < 0 && errno != ENODATA && errno != EOPNOTSUPP)
                return -errno;

        return 0;
}

/* Lists of what the guest made are the guest's: they may name itself, its group, or others, also for what the host user
 * makes there later. */
static int take_lists(const char *path, const struct stat *st) {
        int r = take_list(path, "system.posix_acl_access");

        if (r == 0 && S_ISDIR(st->st_mode))
                r = take_list(path, "system.posix_acl_default");
        return r;
}

/* Nobody but the host user writes there afterwards, or the guest would by a mode that it chose. Others read what they
 * could read; the group too, whose bits were those of a list. A socket or a pipe is for its owner. The kernel itself
 * takes set-id bits away when the owner changes; the rest of them goes here. */
static mode_t mode_for_host(mode_t mode) {
        mode_t others = mode & 05, wanted = 0600 | others << 3 | others;

        if (!S_ISDIR(mode) && !S_ISREG(mode))
                return 0600;
        if (S_ISDIR(mode) || (mode & 0111))
                wanted |= 0100;

        return wanted;
}

/* Who gives the grant again leaves out files with several names, but for those that the guest is named in. It could put
 * no name of these anywhere else. */
static int take_named(const struct take *take, const char *path, mode_t mode) {
        unsigned char bytes[4 + 8 * LIST_ENTRIES_MAX];
        struct access_list list;

        access_list_of_mode(mode, &list);
        int r = access_list_give(&list, take->ids->inner_uid, 0);
        if (r < 0)
                return r;

        size_t n = access_list_write(&list, bytes);
        if (setxattr(path, "system.posix_acl_access", bytes, n, 0) < 0 && errno != EOPNOTSUPP)
                return -errno;

        return 0;
}

static int take_mode(const struct take *take, int fd, const struct stat *st) {
        mode_t mode = mode_for_host(st->st_mode);
        char path[64];

        if (S_ISLNK(st->st_mode))
                return 0;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int r = take_lists(path, st);
        if (r == 0 && chmod(path, mode) < 0)
                r = -errno;
        if (r == 0 && take->granted && S_ISREG(st->st_mode) && st->st_nlink > 1)
                r = take_named(take, path, mode);

        return r;
}

/* What the host user made below a directory of the guest's has lists and modes that the guest chose, by the list that
 * new entries get there. A file with several names is left alone: one may lie elsewhere. */
static int take_narrow(int fd, const struct stat *st) {
        const struct access_list none = { 0 };
        struct access_list list;

        if (!S_ISDIR(st->st_mode) && (!S_ISREG(st->st_mode) || st->st_nlink > 1))
                return 0;

        int r = access_list_read(fd, false, st->st_mode, &list);
        if (r == 0 && access_list_narrow(&list))
                r = access_list_set(fd, false, &list);
        if (r == 0 && S_ISDIR(st->st_mode))
                r = access_list_set(fd, true, &none);

        if (r == -EOPNOTSUPP)
                return 0;

        return r;
}

static void take_tree(struct take *take, int fd, bool ours, bool below, unsigned depth);

/* To be looked into in the next round, under a name that nothing there has. What was moved meanwhile is the caller's to
 * find: it looks whether the guest still owns anything. */
static void take_up(struct take *take, int parent, const char *name, bool below) {
        struct up up = { .name = "deep-", .below = below };

        random_id(up.name + 5, sizeof up.name - 5);
        if (renameat(parent, name, take->top, up.name) < 0) {
                if (errno != ENOENT)
                        take_failed(take, -errno);
                return;
        }

        take->moved++;
        if (vec_push(&take->up, up) < 0)
                take_failed(take, -ENOMEM);
}

static int take_one(const struct take *take, int fd, const struct stat *st) {
        /* Before, so that nothing of it stays if this is killed in between; and after, when the guest can change
         * nothing. */
        (void)take_mode(take, fd, st);

        int r = take_owner(take, fd);
        if (r < 0)
                return r;

        return take_mode(take, fd, st);
}

/* `below`: in a directory that the guest made. */
static void take_object(struct take *take, int parent, const char *name, int fd, bool below, unsigned depth) {
        struct stat st;
        int r = fstat(fd, &st) < 0 ? -errno : 0;
        bool its = r == 0 && st.st_uid == take->ids->inner_uid;

        if (its)
                r = take_one(take, fd, &st);
        else if (r == 0 && below && st.st_uid == HOST_INSIDE)
                r = take_narrow(fd, &st);
        if (r < 0) {
                take_failed(take, r);
                return;
        }

        if (!S_ISDIR(st.st_mode))
                return;

        bool ours = its || st.st_uid == HOST_INSIDE; /* a guest can move directories of the host user's so deep */
        if (depth < DEPTH_MAX)
                take_tree(take, fd, ours, its || below, depth);
        else if (ours)
                take_up(take, parent, name, its || below);
        else
                take->left++;
}

static void take_name(struct take *take, int parent, const char *name, bool below, unsigned depth) {
        cleanup(close_fd) int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                take_object(take, parent, name, fd, below, depth);
        else if (errno != ENOENT)
                take_failed(take, -errno);
}

/* A directory of somebody else's that is closed to the host user is left alone. */
static void take_tree(struct take *take, int fd, bool ours, bool below, unsigned depth) {
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
                        take_name(take, dirfd(list), entry->d_name, below, depth + 1);

        closedir(list);
}

/* Each round looks into what the one before brought up, and into nothing else. */
static void take_rounds(struct take *take) {
        unsigned round = 0;

        take_object(take, -1, NULL, take->top, false, 0);

        while (take->up.n && take->error == 0 && round++ < ROUNDS_MAX) {
                struct up *names = take->up.p;
                size_t n = take->up.n;

                take->up.p = NULL;
                take->up.n = take->up.cap = 0;
                for (size_t i = 0; i < n; i++)
                        take_name(take, take->top, names[i].name, names[i].below, 1);
                free(names);
        }

        if (take->up.n && take->error == 0)
                take_failed(take, -EBUSY);
        vec_done(&take->up);
}

static int take_inside(void *arg, struct err *err) {
        struct take *take = arg;
        cleanup(close_fd) int opened = -1;

        /* The guest may have closed a directory on the way. */
        if (take->top < 0)
                take->top = opened = path_open_at(AT_FDCWD, take->path, O_PATH, 0, PATH_NO_SYMLINKS);
        if (take->top < 0)
                return err_set(err, -take->top, "cannot open %s: %s", take->path, strerror(-take->top));

        take_rounds(take);

        if (take->moved)
                log_warning("%zu directories that lay too deep below %s are directly in it now, as deep-*", take->moved,
                            take->path);
        if (take->left)
                log_warning("%zu directories below %s are not looked into: they are closed to you, or too deep",
                            take->left, take->path);
        if (take->error < 0)
                return err_set(err, -take->error, "cannot take back all that the guest made in %s: %s", take->path,
                               strerror(-take->error));

        return 0;
}

int guest_take(const struct guest *guest, const char *path, bool granted, struct err *err) {
        /* With the host user's own groups, if possible. */
        cleanup(close_fd) int fd = path_open_at(AT_FDCWD, path, O_PATH, 0, PATH_NO_SYMLINKS);
        struct take take = { .ids = &guest->ids, .path = path, .granted = granted, .top = fd };

        if (fd < 0 && fd != -EACCES)
                return err_set(err, -fd, "cannot open %s: %s", path, strerror(-fd));

        return guest_inside(guest, take_inside, &take, err);
}
