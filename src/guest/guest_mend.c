/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_mend.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/account/guest_account.h"
#include "guest/guest_home.h"
#include "guest/guest_life.h"
#include "guest/guest_pack.h"
#include "guest/recipe/provision.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { YOUNG_S = 2 };

static int mend_create(struct guests *guests, struct guest *guest, struct err *err) {
        return guest_create_finish(guests, guest, err);
}

static int mend_delete(struct guests *guests, struct guest *guest, struct err *err) {
        return guest_delete_finish(guests, guest, strcmp(guest->row.note, GUEST_NOTE_KEEP) == 0, err);
}

/* What is being done, and how it is finished or rolled back. */
static const struct {
        enum guest_step_kind step;
        int (*mend)(struct guests *guests, struct guest *guest, struct err *err);
} operations[] = {
        { STEP_CREATED, mend_create },
        { STEP_DELETE, mend_delete },
        { STEP_ARCHIVE, guest_archive_mend },
        { STEP_UNARCHIVE, guest_unarchive_mend },
        { STEP_SNAPSHOT, guest_snapshot_mend },
        { STEP_RESTORE, guest_restore_mend },
        { STEP_PROVISION, guest_provision_mend },
};

static int mend_operation(struct guests *guests, struct guest *guest, struct err *err) {
        if (!guest->row.doing[0])
                return 0;

        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
                if (strcmp(guest->row.doing, guest_step_name(operations[i].step)) == 0) {
                        log_notice("guest %s: putting in order what was interrupted: %s", guest->row.name,
                                   guest->row.doing);
                        return operations[i].mend(guests, guest, err);
                }

        return 0;
}

/* Whoever kept its jobs is gone with it. */
static int mend_run(struct guests *guests, struct guest *guest, struct err *err) {
        int r = 0;

        if (guest->state == GUEST_RUNNING && !guest_is_running(guest)) {
                r = guests_db_lose_jobs(guests->db, guest->row.id, err);
                if (r == 0)
                        r = guest_move(guests, guest, STEP_END, "its supervisor ended without a word", NULL, NULL, err);
        }

        return r;
}

static int mend_home(struct guests *guests, struct guest *guest, struct err *err) {
        const char *problem;

        switch (guest->state) {
        case GUEST_READY:
        case GUEST_STOPPED:
        case GUEST_RUNNING:
                problem = guest_home_problem(guest);
                break;
        case GUEST_ARCHIVED:
                problem = guest_archive_problem(guest);
                break;
        case GUEST_BROKEN:
                problem = guest->before == GUEST_ARCHIVED ? guest_archive_problem(guest) : guest_home_problem(guest);
                break;
        default:
                return 0;
        }

        if (!problem)
                problem = guest_account_problem(guest);
        if (guest->state == GUEST_BROKEN && problem)
                return 0;
        if (guest->state == GUEST_BROKEN)
                return guest_move(guests, guest, STEP_MEND, "", NULL, NULL, err);
        if (!problem)
                return 0;

        log_warning("guest %s: %s", guest->row.name, problem);
        return guest_move(guests, guest, STEP_BREAK, problem, NULL, NULL, err);
}

int guest_mend(struct guests *guests, struct guest *guest, struct err *err) {
        int r = mend_operation(guests, guest, err);

        if (r == 0)
                r = mend_run(guests, guest, err);
        if (r < 0 || guest->state == GUEST_DELETED)
                return r;

        return mend_home(guests, guest, err);
}

/* Whether there is anything to do: most of the time nobody has to be locked. */
static bool needs_mending(const struct guest *guest) {
        if (guest->row.doing[0])
                return true;
        if (guest->state == GUEST_BROKEN)
                return true;
        if (guest->state == GUEST_RUNNING)
                return !guest_is_running(guest) || guest_home_problem(guest);
        if (guest->state == GUEST_ARCHIVED)
                return guest_archive_problem(guest) || guest_account_problem(guest);

        return guest_home_problem(guest) || guest_account_problem(guest);
}

static int mend_one(struct guests *guests, struct guest_row *row, struct err *err) {
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        struct err why = { 0 };
        int r = guest_of_row(guests, row, &guest, &why);

        if (r < 0) {
                log_warning("%s", err_text(&why));
                return 0;
        }

        if (!needs_mending(&guest))
                return 0;
        if (guest.fd >= 0 && guest_hold(guests, &guest, 0, &why) < 0)
                return 0; /* somebody is at work on it, or has deleted it */

        r = guest_mend(guests, &guest, &why);
        if (r == -EBADMSG || r == -EROFS || r == -EBUSY)
                return err_set(err, -r, "%s", err_text(&why));
        if (r < 0)
                log_warning("guest %s: %s", guest.row.name, err_text(&why));

        return 0;
}

/*
 * Places that a killed `create` made before it had a row. Nothing of a guest's was in them yet.
 */
static bool place_has_row(const guest_rows *rows, const char *id) {
        for (size_t i = 0; i < rows->n; i++)
                if (rows->p[i].id && strcmp(rows->p[i].id, id) == 0)
                        return true;
        return false;
}

/* Whoever makes one right now is left alone: it is young, or locked. A directory that holds anything stays. */
static void place_sweep(int top, const char *id) {
        struct stat st;
        cleanup(close_fd) int place = openat(top, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (place < 0 || fstat(place, &st) < 0 || time(NULL) - st.st_mtime < YOUNG_S)
                return;
        if (faccessat(place, "home", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
            faccessat(place, "info", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return;

        cleanup(close_fd) int lock = openat(place, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && (flock(lock, LOCK_EX | LOCK_NB) < 0 || unlinkat(place, "lock", 0) < 0))
                return;

        (void)unlinkat(top, id, AT_REMOVEDIR);
}

static void places_sweep(const struct guests *guests, const guest_rows *rows) {
        DIR *dir = opendir(guests->top);

        if (!dir)
                return;

        for (const struct dirent *entry; (entry = readdir(dir));)
                if (strlen(entry->d_name) == GUEST_ID_LENGTH && !place_has_row(rows, entry->d_name))
                        place_sweep(dirfd(dir), entry->d_name);

        closedir(dir);
}

int guests_mend(struct guests *guests, struct err *err) {
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        int r = guests_db_list(guests->db, false, &rows, err);

        if (r == 0)
                places_sweep(guests, &rows);
        for (size_t i = 0; i < rows.n && r == 0; i++)
                r = mend_one(guests, &rows.p[i], err);
        return r;
}

int guests_open(struct guests *ret, struct err *err) {
        int r = guests_open_as_is(ret, err);

        if (r < 0)
                return r;

        r = guests_mend(ret, err);
        if (r < 0)
                guests_close(ret);

        return r;
}
