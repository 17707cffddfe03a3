/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_grants.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "guest/access_list.h"
#include "guest/guest_take.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ = 4, WRITE = 2, SEARCH = 1, DEPTH_MAX = 400, ROUNDS_MAX = 8 };

struct grant {
        uint32_t uid, gid; /* the guest's */
        bool write, revoke;
        bool chosen; /* the path itself was named by the host user just now */
        uid_t owner;
        gid_t group;
        size_t skipped, left; /* left: the guest's own, by now */
};

/* A list that was there before names whom its maker wanted; one of ours has a mark, to be told from it later. What the
 * guest makes there is the host user's, too. */
static int list_open_standard(const struct grant *grant, const struct stat *st, struct access_list *list) {
        int r = 0;

        if (list->n == 0) {
                access_list_of_mode(st->st_mode, list);
                r = access_list_mark(list, grant->group);
        }
        if (r == 0 && !access_list_names(list, grant->owner))
                r = access_list_give(list, grant->owner, READ | WRITE | SEARCH);

        return r;
}

static int list_open(const struct grant *grant, int fd, const struct stat *st, bool standard) {
        struct access_list list;
        uint16_t rights = READ;
        int r = access_list_read(fd, standard, st->st_mode, &list);

        if (r == 0 && standard)
                r = list_open_standard(grant, st, &list);
        if (r < 0)
                return r;

        if (grant->write)
                rights |= WRITE;
        if (S_ISDIR(st->st_mode) || (st->st_mode & 0111))
                rights |= SEARCH;

        r = access_list_give(&list, grant->uid, rights);
        if (r < 0)
                return r;

        return access_list_set(fd, standard, &list);
}

static int list_close(const struct grant *grant, int fd, const struct stat *st, bool standard) {
        struct access_list list;
        int r = access_list_read(fd, standard, st->st_mode, &list);

        if (r < 0 || (standard && list.n == 0))
                return r;

        access_list_take(&list, grant->uid, grant->gid);
        if (access_list_unmark(&list, grant->owner, grant->group) && standard)
                list.n = 0;

        return access_list_set(fd, standard, &list);
}

static int grant_list(const struct grant *grant, int fd, const struct stat *st, bool standard) {
        return grant->revoke ? list_close(grant, fd, st, standard) : list_open(grant, fd, st, standard);
}

/* A second name of a file may lie where nothing was granted. One that the guest may use by its list already can be
 * given again. */
static bool grant_is_elsewhere(const struct grant *grant, int fd, const struct stat *st) {
        struct access_list list;

        if (grant->revoke || !S_ISREG(st->st_mode) || st->st_nlink == 1)
                return false;

        return access_list_read(fd, false, st->st_mode, &list) < 0 || !access_list_names(&list, grant->uid);
}

static int grant_tree(struct grant *grant, int fd, unsigned depth);

/* Only by name so far: a guest could hold up who opens a file of its own, by a lease. */
static int grant_name(struct grant *grant, int dir, const char *name, unsigned depth) {
        int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return -errno;
        return grant_tree(grant, fd, depth);
}

/* Whether its lists stay: of what others own, or might be used under another name. */
static bool grant_passes_over(struct grant *grant, int fd, const struct stat *st, unsigned depth) {
        if (depth > 0 && st->st_uid == grant->uid)
                grant->left++;
        if (depth > 0 && !S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
                return true;

        /* So deep there is nothing but what was put there just now: what the guest made is brought up first. */
        if (depth > DEPTH_MAX)
                grant->left++;

        bool foreign = depth > 0 && st->st_uid != grant->owner;
        bool chosen = depth == 0 && grant->chosen;
        bool stays = foreign || depth > DEPTH_MAX || (!chosen && grant_is_elsewhere(grant, fd, st));
        grant->skipped += stays;

        return stays;
}

/* What the host user made in a directory that hands on its group: by that the guest could still use it. */
static int grant_group(const struct grant *grant, int fd, const struct stat *st) {
        if (!grant->revoke || st->st_uid != grant->owner || st->st_gid != grant->gid)
                return 0;
        if (fchownat(fd, "", (uid_t)-1, grant->group, AT_EMPTY_PATH) < 0)
                return -errno;

        return 0;
}

static int grant_listing(struct grant *grant, int fd, unsigned depth) {
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *list = copy < 0 ? NULL : fdopendir(copy);

        if (!list) {
                r = -errno;
                close_fd(&copy);
                if (r != -EACCES || grant->revoke)
                        return r;

                grant->skipped++;
                return 0;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(list));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = grant_name(grant, dirfd(list), entry->d_name, depth + 1);

        closedir(list);
        return r;
}

/* A directory may be closed to its owner too, by a list of the guest's: it is opened while it is looked into. */
static int grant_entries(struct grant *grant, int fd, unsigned depth) {
        char path[64];
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;

        bool closed = grant->revoke && st.st_uid == grant->owner && (st.st_mode & 0500) != 0500;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (closed && chmod(path, (st.st_mode & 07777) | 0500) < 0)
                return -errno;

        int r = grant_listing(grant, fd, depth);
        if (closed && chmod(path, st.st_mode & 07777) < 0 && r == 0)
                r = -errno;

        return r;
}

/* Takes the descriptor. A directory's own list comes first: what the guest may not write any more gets no new entries.
 */
static int grant_tree(struct grant *grant, int taken, unsigned depth) {
        cleanup(close_fd) int fd = taken;
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (grant_passes_over(grant, fd, &st, depth))
                return 0;

        int r = grant_group(grant, fd, &st);
        if (r == 0)
                r = grant_list(grant, fd, &st, false);
        if (r < 0 || !S_ISDIR(st.st_mode))
                return r;

        r = grant_list(grant, fd, &st, true);
        if (r < 0)
                return r;

        return grant_entries(grant, fd, depth);
}

static int grant_lists(struct grant *grant, const char *path, struct err *err) {
        /* What was granted had no link in its path. A guest that may write around it can put one there, or a FIFO. */
        int fd = path_open_at(AT_FDCWD, path, O_PATH, 0, PATH_NO_SYMLINKS);

        if (fd < 0)
                return err_set(err, -fd, "cannot open %s: %s", path, strerror(-fd));

        grant->left = grant->skipped = 0;
        int r = grant_tree(grant, fd, 0);
        if (r < 0)
                return err_set(err, -r, "cannot change who may use %s: %s", path, strerror(-r));

        return 0;
}

static struct grant grant_of(const struct guest *guest, bool write, bool revoke) {
        return (struct grant){ .uid = guest->row.uid,
                               .gid = guest->row.gid,
                               .write = write,
                               .revoke = revoke,
                               .owner = geteuid(),
                               .group = getegid() };
}

static void grant_tell_skipped(const struct grant *grant, const char *path) {
        if (grant->skipped)
                log_warning("%zu entries below %s stay as they are: they are not yours, or have several names",
                            grant->skipped, path);
}

static int grant_open(struct grant *grant, const char *path, struct err *err) {
        int r = grant_lists(grant, path, err);

        if (r == 0)
                grant_tell_skipped(grant, path);
        return r;
}

int guest_grant_give(const struct guest *guest, const char *path, bool write, struct err *err) {
        struct grant grant = grant_of(guest, write, false);

        grant.chosen = true;
        return grant_open(&grant, path, err);
}

int guest_grant_give_again(const struct guest *guest, const char *path, bool write, struct err *err) {
        struct grant grant = grant_of(guest, write, false);

        return grant_open(&grant, path, err);
}

/* A guest that runs may make something between the two steps. Once the lists are closed it cannot any more. */
static int grant_close(const struct guest *guest, const char *path, struct err *err) {
        struct grant grant = grant_of(guest, false, true);
        int r = 0;

        for (unsigned round = 0; r == 0 && round < ROUNDS_MAX; round++) {
                r = guest_take(guest, path, false, err);
                if (r == 0)
                        r = grant_lists(&grant, path, err);
                if (r == 0 && grant.left == 0) {
                        grant_tell_skipped(&grant, path);
                        return 0;
                }
        }

        if (r < 0)
                return r;

        return err_set(err, EBUSY, "the guest %s does not stop writing to %s: stop it first", guest->row.name, path);
}

bool grant_is_gone(int error) {
        return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

int guest_grant_object(const char *path, char ret[static GRANT_OBJECT_MAX]) {
        cleanup(close_fd) int fd = path_open_at(AT_FDCWD, path, O_PATH, 0, PATH_NO_SYMLINKS);
        struct statx st;

        if (fd < 0)
                return fd;
        if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
                return -errno;

        /* Numbers of devices change when the machine starts again: only where nothing else tells them apart. */
        if (st.stx_mask & STATX_BTIME)
                snprintf(ret, GRANT_OBJECT_MAX, "%" PRIu64 " made %" PRId64 ".%09" PRIu32, (uint64_t)st.stx_ino,
                         (int64_t)st.stx_btime.tv_sec, (uint32_t)st.stx_btime.tv_nsec);
        else
                snprintf(ret, GRANT_OBJECT_MAX, "%" PRIu64 " on %" PRIu32 ":%" PRIu32, (uint64_t)st.stx_ino,
                         (uint32_t)st.stx_dev_major, (uint32_t)st.stx_dev_minor);

        return 0;
}

int guest_grant_look(const char *path) {
        cleanup(close_fd) int fd = path_open_at(AT_FDCWD, path, O_PATH, 0, PATH_NO_SYMLINKS);

        if (fd < 0)
                return fd;

        return 0;
}

/* Something of another user: its lists cannot be changed, and keep no grant. */
static bool grant_is_foreign(const struct guest *guest, const char *path) {
        struct stat st;

        return lstat(path, &st) == 0 && st.st_uid != geteuid() && st.st_uid != guest->row.uid;
}

int guest_grant_take(const struct guest *guest, const char *path, struct err *err) {
        struct err why = { 0 };
        /* Asked of the path itself, and first: below it the guest can make any error happen. EACCES: the guest closed a
         * directory on the way, by which another grant has it. That one takes all of it. */
        int there = guest_grant_look(path), r = grant_close(guest, path, &why);

        if (r == 0)
                return 0;
        if (there != -EACCES && !grant_is_gone(-there) && !grant_is_foreign(guest, path))
                return err_set(err, -r, "%s", err_text(&why));

        log_warning("%s stays as it is: it is gone, or not yours: %s", path, err_text(&why));
        return 0;
}

int guest_grant_fix(const struct guest *guest, const char *path, bool write, struct err *err) {
        int r = guest_take(guest, path, true, err);

        if (r < 0)
                return r;

        return guest_grant_give_again(guest, path, write, err);
}
