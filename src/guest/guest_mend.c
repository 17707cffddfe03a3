/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_mend.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/guest_account.h"
#include "guest/guest_home.h"
#include "guest/guest_life.h"
#include "guest/guest_pack.h"
#include "guest/provision.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
        if (guest->state == GUEST_BROKEN)
                return problem ? 0 : guest_move(guests, guest, STEP_MEND, "", NULL, NULL, err);
        if (!problem)
                return 0;

        log_warning("guest %s: %s", guest->row.name, problem);
        return guest_move(guests, guest, STEP_BREAK, problem, NULL, NULL, err);
}

int guest_mend(struct guests *guests, struct guest *guest, struct err *err) {
        int r = mend_operation(guests, guest, err);

        if (r == 0)
                r = mend_run(guests, guest, err);
        return r < 0 || guest->state == GUEST_DELETED ? r : mend_home(guests, guest, err);
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

int guests_mend(struct guests *guests, struct err *err) {
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        int r = guests_db_list(guests->db, false, &rows, err);

        for (size_t i = 0; i < rows.n && r == 0; i++)
                r = mend_one(guests, &rows.p[i], err);
        return r;
}
