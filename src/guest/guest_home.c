/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_home.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "guest/access_list.h"
#include "guest/guest_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ = 4, WRITE = 2, SEARCH = 1, DEPTH_MAX = 400, HOST_INSIDE = 0 };

struct home_work {
        const struct guest *guest;
        const char *name;
};

/*
 * Making.
 */
static int home_open(const struct home_work *work, struct err *err) {
        int fd = openat(work->guest->fd, work->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return err_errno(err, "cannot open %s/%s", work->guest->directory, work->name);

        return fd;
}

/* Who is named, in the list of the thing itself and, for a directory, in that of what comes into it. */
static int lists_open(int fd, const struct stat *st, unsigned inner_uid) {
        struct access_list list, standard;
        bool dir = S_ISDIR(st->st_mode);
        uint16_t host = READ | WRITE | (dir || (st->st_mode & S_IXUSR) ? SEARCH : 0);
        int r = access_list_read(fd, false, st->st_mode, &list);

        if (r == 0)
                r = access_list_give(&list, HOST_INSIDE, host);
        if (r == 0)
                r = access_list_set(fd, false, &list);
        if (r < 0 || !dir)
                return r;

        access_list_of_mode(0700, &standard);
        r = access_list_give(&standard, HOST_INSIDE, READ | WRITE | SEARCH);
        if (r == 0)
                r = access_list_give(&standard, inner_uid, READ | WRITE | SEARCH);
        if (r < 0)
                return r;

        return access_list_set(fd, true, &standard);
}

/* What its owner closed, the owner cannot open either; its mode can be changed. The object that was looked at is the
 * one that is changed. */
static void name_open(int dir, const char *name) {
        char path[64];
        struct stat st;
        cleanup(close_fd) int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
                return;

        mode_t wanted = st.st_mode | (S_ISDIR(st.st_mode) ? 0700 : 0600);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (wanted != st.st_mode && chmod(path, wanted & 0777) < 0)
                return; /* opening it says why */
}

static int home_make(void *arg, struct err *err) {
        const struct home_work *work = arg;
        const struct sandbox_ids *ids = &work->guest->ids;
        struct stat st;

        if (mkdirat(work->guest->fd, work->name, 0700) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s/%s", work->guest->directory, work->name);

        name_open(work->guest->fd, work->name);
        cleanup(close_fd) int fd = home_open(work, err);
        if (fd < 0)
                return fd;
        if (work->guest->kind == GUEST_OWN)
                return 0;
        if (fchown(fd, ids->inner_uid, ids->inner_gid) < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot give %s/%s to the guest", work->guest->directory, work->name);

        int r = lists_open(fd, &st, ids->inner_uid);
        if (r < 0)
                return err_set(err, -r,
                               "cannot open %s/%s to you by an access list: %s (the file system must have POSIX ACLs)",
                               work->guest->directory, work->name, strerror(-r));

        return 0;
}

int guest_home_make(const struct guest *guest, const char *name, struct err *err) {
        struct home_work work = { guest, name };

        return guest_inside(guest, home_make, &work, err);
}

/*
 * Mending.
 */
struct mend {
        const struct sandbox_ids *ids; /* NULL: only what the owner closed is opened */
        bool owner_only;
        size_t skipped;
};

/* Owner, set-id bits, permissions of the owner, lists. */
static int entry_mend(struct mend *mend, int fd, const struct stat *st) {
        bool dir = S_ISDIR(st->st_mode);
        mode_t wanted = (st->st_mode | (dir ? 0700 : 0600)) & 0777;

        if (mend->ids && st->st_uid == HOST_INSIDE && (dir || st->st_nlink == 1) &&
            fchown(fd, mend->ids->inner_uid, mend->ids->inner_gid) < 0)
                return -errno;

        if (mend->owner_only)
                return 0;
        if ((st->st_mode & 07777) != wanted && fchmod(fd, wanted) < 0)
                return -errno;

        if (mend->ids)
                return lists_open(fd, st, mend->ids->inner_uid);

        return 0;
}

static int tree_mend(struct mend *mend, int dir, unsigned depth);

/* Links, sockets, devices and the like have nothing to be opened. */
static int name_mend(struct mend *mend, int dir, const char *name, unsigned depth) {
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno == ENOENT)
                        return 0;
                return -errno;
        }
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return 0;
        if (!mend->ids)
                name_open(dir, name);

        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))) {
                mend->skipped++;
                return 0;
        }

        int r = entry_mend(mend, fd, &st);
        if (r < 0)
                mend->skipped++;
        if (!S_ISDIR(st.st_mode))
                return 0;

        if (depth == DEPTH_MAX) {
                mend->skipped++;
                return 0;
        }

        return tree_mend(mend, take_fd(&fd), depth + 1);
}

/* Takes the descriptor. */
static int tree_mend(struct mend *mend, int dir, unsigned depth) {
        DIR *list = fdopendir(dir);
        int r = 0;

        if (!list) {
                r = -errno;
                close(dir);
                return r;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(list));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = name_mend(mend, dirfd(list), entry->d_name, depth);

        closedir(list);
        return r;
}

static int home_mend(void *arg, bool owner_only, struct err *err) {
        const struct home_work *work = arg;
        struct mend m = { .ids = work->guest->kind == GUEST_OWN ? NULL : &work->guest->ids, .owner_only = owner_only };
        int r = home_make(arg, err);

        if (r < 0)
                return r;

        int fd = home_open(work, err);
        if (fd < 0)
                return fd;

        r = tree_mend(&m, fd, 0);
        if (r < 0)
                return err_set(err, -r, "cannot mend %s/%s: %s", work->guest->directory, work->name, strerror(-r));
        if (m.skipped)
                log_warning("%zu entries stay as they are: too deep, or gone meanwhile", m.skipped);

        return 0;
}

static int home_fix(void *arg, struct err *err) {
        return home_mend(arg, false, err);
}

static int home_adopt(void *arg, struct err *err) {
        return home_mend(arg, true, err);
}

int guest_home_adopt(const struct guest *guest, const char *name, struct err *err) {
        struct home_work work = { guest, name };

        if (guest->kind == GUEST_OWN)
                return 0;

        return guest_inside(guest, home_adopt, &work, err);
}

int guest_home_adopt_entry(const struct guest *guest, int directory, const char *name, struct err *err) {
        struct mend mend = { .ids = &guest->ids, .owner_only = true };
        int r = 0;

        if (guest->kind != GUEST_OWN)
                r = name_mend(&mend, directory, name, 0);

        if (r == 0 && guest->kind != GUEST_OWN && mend.skipped)
                r = -EIO;
        if (r < 0)
                return err_set(err, -r, "cannot give %s to the guest: %s", name, strerror(-r));

        return 0;
}

int guest_home_fix(const struct guest *guest, const char *name, struct err *err) {
        struct home_work work = { guest, name };

        return guest_inside(guest, home_fix, &work, err);
}

static int home_seclude(void *arg, struct err *err) {
        const struct home_work *work = arg;
        cleanup(close_fd) int home = openat(work->guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct access_list standard;

        if (home < 0)
                return err_errno(err, "cannot open %s", work->guest->home);

        cleanup(close_fd) int fd =
            path_open_at(home, work->name, O_RDONLY | O_DIRECTORY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        if (fd < 0)
                return err_set(err, -fd, "cannot open %s in the guest's home: %s", work->name, strerror(-fd));

        access_list_of_mode(0700, &standard);
        int r = access_list_give(&standard, HOST_INSIDE, READ | SEARCH);
        if (r == 0)
                r = access_list_set(fd, true, &standard);
        if (r < 0)
                return err_set(err, -r, "cannot change who may write to %s: %s", work->name, strerror(-r));

        return 0;
}

int guest_home_seclude(const struct guest *guest, const char *path, struct err *err) {
        struct home_work work = { guest, path };

        return guest_inside(guest, home_seclude, &work, err);
}

/*
 * Removing.
 */
static int home_remove(void *arg, struct err *err) {
        const struct home_work *work = arg;
        int r = tree_remove(work->guest->fd, work->name);

        if (r < 0)
                return err_set(err, -r, "cannot remove all of %s/%s: %s", work->guest->directory, work->name,
                               strerror(-r));

        return 0;
}

int guest_home_remove(const struct guest *guest, const char *name, struct err *err) {
        struct home_work work = { guest, name };
        struct stat st;

        if (guest->fd < 0 || (fstatat(guest->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
                return 0;
        return guest_inside(guest, home_remove, &work, err);
}

const char *guest_home_problem(const struct guest *guest) {
        struct stat st;

        if (guest->fd < 0)
                return "its directory is gone";
        if (fstatat(guest->fd, "home", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return "its home is gone";
        if (!S_ISDIR(st.st_mode))
                return "its home is no directory";
        if (st.st_uid != (guest->kind == GUEST_OWN ? geteuid() : guest->row.uid))
                return "its home belongs to another user";

        return NULL;
}
