/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_pack.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "guest/guest_home.h"
#include "guest/guest_inside.h"
#include "guest/guest_start.h"
#include "guest/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char archive_name[] = GUEST_ARCHIVE_NAME, part_name[] = "pack.part", fresh_name[] = "home.new";

struct pack_work {
        int directory, file;
        struct progress progress;
        bool unpack;
};

static int pack_work(void *arg, struct err *err) {
        struct pack_work *work = arg;

        if (work->unpack)
                return unpack_directory(work->file, work->directory, &work->progress, err);
        return pack_directory(work->directory, work->file, &work->progress, err);
}

/* With a note for the dashboard: the worker is somebody else, who could not make one. */
static int pack_shown(const struct guest *guest, struct pack_work *work, struct err *err) {
        cleanup(free_ptr) char *what = str_format("%s: %s", guest->row.name, work->unpack ? "unpacking" : "packing");
        struct stat st;

        if (!what)
                return err_memory(err);

        work->progress = PROGRESS_NONE;
        work->progress.what = what;
        if (work->unpack && fstat(work->file, &st) == 0)
                work->progress.total = (uint64_t)st.st_size;

        progress_open(&work->progress);
        int r = guest_inside_alone(guest, pack_work, work, err);
        progress_close(&work->progress);

        return r;
}

/* The host user's way in is put back first: the guest may have closed it. */
static int home_descriptor(const struct guest *guest, const char *name, struct err *err) {
        int r = guest_home_make(guest, name, err);

        if (r < 0)
                return r;
        int fd = openat(guest->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_errno(err, "cannot open %s/%s", guest->directory, name);

        return fd;
}

/*
 * Packing: into pack.part, which is on the disk when this returns.
 */
static int pack_part(const struct guest *guest, uint64_t *ret_bytes, struct err *err) {
        struct stat st = { 0 };
        int r = guest_home_adopt(guest, "home", err); /* what the host user laid there belongs to it */

        if (r < 0)
                return r;

        cleanup(close_fd) int home = home_descriptor(guest, "home", err);
        if (home < 0)
                return home;

        cleanup(close_fd) int file =
            openat(guest->fd, part_name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0)
                return err_errno(err, "cannot make %s/%s", guest->directory, part_name);

        struct pack_work work = { .directory = home, .file = file };
        r = pack_shown(guest, &work, err);
        if (r == 0 && (fsync(file) < 0 || fstat(file, &st) < 0))
                r = err_errno(err, "cannot write %s/%s", guest->directory, part_name);

        if (r < 0)
                (void)unlinkat(guest->fd, part_name, 0);
        else
                *ret_bytes = (uint64_t)st.st_size;

        return r;
}

/* From a file into home.new, whatever was left there. */
static int unpack_fresh(const struct guest *guest, int file, struct err *err) {
        int r = guest_home_remove(guest, fresh_name, err);

        if (r < 0)
                return r;

        cleanup(close_fd) int fresh = home_descriptor(guest, fresh_name, err);
        if (fresh < 0)
                return fresh;

        struct pack_work work = { .directory = fresh, .file = file, .unpack = true };
        r = pack_shown(guest, &work, err);
        if (r == 0)
                r = guest_home_make(guest, fresh_name, err); /* tar gave it the mode of the old one */
        if (r == 0 && syncfs(fresh) < 0)                     /* what it comes from, or replaces, is removed next */
                r = err_errno(err, "cannot write the home to the disk");

        if (r < 0) {
                struct err ignored = { 0 };
                (void)guest_home_remove(guest, fresh_name, &ignored);
        }

        return r;
}

static int clear_doing(struct guests *guests, struct guest *guest, const char *step, struct err *err) {
        const struct guest_change change = { .step = step, .doing = "", .note = "" };

        return guests_db_change(guests->db, guest->row.id, &change, err);
}

/*
 * Snapshots.
 */
static int snapshot_path(const char *label, char ret[static PATH_MAX], struct err *err) {
        size_t n = strlen(label);
        bool good = n > 0 && n <= 64 && ascii_is_alnum(label[0]);

        for (size_t i = 0; i < n && good; i++)
                good = ascii_is_alnum(label[i]) || strchr("-_.", label[i]);

        if (!good) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL, "a snapshot's label has 1 to 64 letters, digits, '-', '_' and '.'");
        }

        snprintf(ret, PATH_MAX, "snapshots/%s.tar.zst", label);
        return 0;
}

/* Nothing changes meanwhile. That it is frozen is known by the row: whoever finds it so lets it go on. */
static int pack_still(const struct guest *guest, uint64_t *ret_bytes, struct err *err) {
        struct err thawed = { 0 };
        bool running = guest_is_running(guest);
        int r = 0;

        if (running)
                r = guest_freeze(guest, true, err);

        if (r < 0)
                return err_wrap(err, r, "the guest cannot be brought to a stand");

        r = pack_part(guest, ret_bytes, err);
        if (running && guest_freeze(guest, false, &thawed) < 0)
                log_warning("the guest %s may stand still: bailey resume (%s)", guest->row.name, err_text(&thawed));

        return r;
}

int guest_snapshot(struct guests *guests, struct guest *guest, const char *label, uint64_t *ret_bytes,
                   struct err *err) {
        char path[PATH_MAX];
        struct stat st;
        int r = snapshot_path(label, path, err);

        if (r < 0)
                return r;
        if (mkdirat(guest->fd, "snapshots", 0700) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s/snapshots", guest->directory);
        if (fstatat(guest->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return err_set(err, EEXIST, "there is a snapshot %s of %s already", label, guest->row.name);

        r = guest_begin(guests, guest, STEP_SNAPSHOT, label, err);
        if (r < 0)
                return r;

        r = pack_still(guest, ret_bytes, err);
        if (r == 0 && renameat(guest->fd, part_name, guest->fd, path) < 0)
                r = err_errno(err, "cannot name the snapshot %s", label);
        if (r == 0)
                r = guests_db_add_snapshot(guests->db, guest->row.id, label, *ret_bytes, err);

        struct err ignored = { 0 };
        int cleared = clear_doing(guests, guest, "snapshot", r < 0 ? &ignored : err);
        if (r < 0)
                return r;

        return cleared;
}

/* A file that has its name is whole. */
int guest_snapshot_mend(struct guests *guests, struct guest *guest, struct err *err) {
        char path[PATH_MAX];
        struct stat st;
        struct err ignored = { 0 };
        int r = 0;

        if (guest_is_running(guest))
                (void)guest_freeze(guest, false, &ignored);
        (void)unlinkat(guest->fd, part_name, 0);
        if (snapshot_path(guest->row.note, path, err) == 0 && fstatat(guest->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
                r = guests_db_add_snapshot(guests->db, guest->row.id, guest->row.note, (uint64_t)st.st_size, err);
        if (r < 0 && r != -EEXIST)
                return r;

        return clear_doing(guests, guest, "snapshot", err);
}

int guest_snapshot_remove(struct guests *guests, struct guest *guest, const char *label, struct err *err) {
        char path[PATH_MAX];
        int r = snapshot_path(label, path, err);

        if (r < 0)
                return r;

        r = guests_db_remove_snapshot(guests->db, guest->row.id, label, err);
        if (r < 0)
                return r;

        if (unlinkat(guest->fd, path, 0) < 0 && (errno != ENOENT || r == 0)) {
                err_blame(err, ERR_UNAVAILABLE);
                return err_errno(
                    err, errno == ENOENT ? "there is no snapshot %s of %s" : "cannot remove the snapshot %s of %s",
                    label, guest->row.name);
        }

        return 0;
}

static int restore_swap(const struct guest *guest, struct err *err) {
        if (renameat2(guest->fd, fresh_name, guest->fd, "home", RENAME_EXCHANGE) == 0)
                return 0;
        if (errno == ENOENT && renameat(guest->fd, fresh_name, guest->fd, "home") == 0)
                return 0; /* the old one was gone */
        return err_errno(err, "cannot put the restored home in its place");
}

/* The name of the new home is on the disk before the other copy goes. */
static int home_settle(const struct guest *guest, struct err *err) {
        if (fsync(guest->fd) < 0)
                return err_errno(err, "cannot write %s to the disk", guest->directory);

        return 0;
}

static int restore_end(struct guests *guests, struct guest *guest, struct err *err) {
        int r = home_settle(guest, err);

        if (r == 0)
                r = guest_home_remove(guest, fresh_name, err);

        if (r == 0) /* what recipes did to the home before counts no more */
                r = guests_db_forget_provision(guests->db, guest->row.id, err);
        if (r < 0)
                return r;

        return clear_doing(guests, guest, "restore", err);
}

int guest_restore(struct guests *guests, struct guest *guest, const struct guest *from, const char *label,
                  struct err *err) {
        char path[PATH_MAX];
        int r = snapshot_path(label, path, err);

        if (r < 0)
                return r;

        cleanup(close_fd) int file = openat(from->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0) {
                err_blame(err, ERR_UNAVAILABLE);
                return err_errno(err, "there is no snapshot %s of %s (`bailey guest snapshots %s`)", label,
                                 from->row.name, from->row.name);
        }

        r = guest_begin(guests, guest, STEP_RESTORE, "", err);
        if (r < 0)
                return r;

        r = unpack_fresh(guest, file, err);
        if (r == 0)
                r = restore_swap(guest, err);
        if (r == 0)
                return restore_end(guests, guest, err);

        struct err ignored = { 0 };
        (void)restore_end(guests, guest, &ignored);

        return r;
}

/* Whatever is in home.new now: before the exchange a new home that is not whole, after it the old one. */
int guest_restore_mend(struct guests *guests, struct guest *guest, struct err *err) {
        return restore_end(guests, guest, err);
}

/*
 * Archives.
 */
const char *guest_archive_problem(const struct guest *guest) {
        struct stat st;

        if (guest->fd < 0)
                return "its directory is gone";
        if (fstatat(guest->fd, archive_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                return "its archive is gone";
        return NULL;
}

int guest_archive(struct guests *guests, struct guest *guest, uint64_t *ret_bytes, struct err *err) {
        int r = guest_begin(guests, guest, STEP_ARCHIVE, "", err);

        if (r < 0)
                return r;

        r = pack_part(guest, ret_bytes, err);
        if (r == 0 && (renameat(guest->fd, part_name, guest->fd, archive_name) < 0 || fsync(guest->fd) < 0))
                r = err_errno(err, "cannot name the archive");

        if (r < 0) {
                struct err ignored = { 0 };

                (void)clear_doing(guests, guest, "archive", &ignored);
                return r;
        }

        r = guest_move(guests, guest, STEP_ARCHIVE, "", guest_step_name(STEP_ARCHIVE), "packed", err);
        if (r == 0)
                r = guest_home_remove(guest, "home", err);
        if (r < 0)
                return r;

        return clear_doing(guests, guest, "archive", err);
}

/* Archived by its row: the file is whole, and only the home has to go. Otherwise nothing has happened to the home. */
int guest_archive_mend(struct guests *guests, struct guest *guest, struct err *err) {
        int r = 0;

        (void)unlinkat(guest->fd, part_name, 0);

        if (guest->state == GUEST_ARCHIVED && !guest_archive_problem(guest))
                r = guest_home_remove(guest, "home", err);
        else if (guest->state != GUEST_ARCHIVED)
                (void)unlinkat(guest->fd, archive_name, 0);

        if (r < 0)
                return r;

        return clear_doing(guests, guest, "archive", err);
}

static int unarchive_end(struct guests *guests, struct guest *guest, struct err *err) {
        int r = home_settle(guest, err);

        if (r == 0)
                r = guest_move(guests, guest, STEP_UNARCHIVE, "", NULL, NULL, err);
        if (r == 0 && unlinkat(guest->fd, archive_name, 0) < 0 && errno != ENOENT)
                r = err_errno(err, "cannot remove %s/%s", guest->directory, archive_name);
        return r;
}

int guest_unarchive(struct guests *guests, struct guest *guest, struct err *err) {
        cleanup(close_fd) int file = openat(guest->fd, archive_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        /* What is in the way would be taken for the home that was brought back, and the archive removed. */
        if (guest->state == GUEST_ARCHIVED && fstatat(guest->fd, "home", &st, AT_SYMLINK_NOFOLLOW) == 0)
                return err_set(err, EEXIST, "there is something at %s already: move it away", guest->home);

        int r = guest_begin(guests, guest, STEP_UNARCHIVE, "", err);
        if (r < 0)
                return r;
        if (file < 0)
                return err_errno(err, "cannot open %s/%s", guest->directory, archive_name);

        r = unpack_fresh(guest, file, err);
        if (r == 0 && renameat2(guest->fd, fresh_name, guest->fd, "home", RENAME_NOREPLACE) < 0)
                r = err_errno(err, "cannot put the home of %s in its place", guest->row.name);

        if (r < 0) {
                struct err ignored = { 0 };

                (void)clear_doing(guests, guest, "unarchive", &ignored);
                return r;
        }

        return unarchive_end(guests, guest, err);
}

/* A home that has its name is whole. */
int guest_unarchive_mend(struct guests *guests, struct guest *guest, struct err *err) {
        int r = guest_home_remove(guest, fresh_name, err);

        if (r < 0)
                return r;
        if (guest->state == GUEST_ARCHIVED && !guest_home_problem(guest))
                return unarchive_end(guests, guest, err);
        return clear_doing(guests, guest, "unarchive", err);
}
