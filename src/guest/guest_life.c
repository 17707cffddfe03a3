/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_life.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "guest/account/firewall_reader.h"
#include "guest/account/guest_account.h"
#include "guest/account/guest_groups.h"
#include "guest/account/guest_ids.h"
#include "guest/guest_grants.h"
#include "guest/guest_home.h"
#include "guest/guest_mend.h"
#include "guest/guest_settings.h"
#include "store/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/* Which kind it becomes, and with which ids. Those of an account are not known yet. */
static int wish_kind(struct guests *guests, const struct guest_wish *wish, struct guest_row *row, char *note,
                     struct err *err) {
        char why[ERR_TEXT_MAX] = "";
        enum guest_kind kind = GUEST_ACCOUNT;

        note[0] = '\0';

        if (!wish->account) {
                int r = guest_ids_choose(guests, &row->uid, &row->gid, why, err);
                if (r < 0)
                        return r;
                kind = r > 0 ? GUEST_ROOTLESS : GUEST_OWN;
        }

        if (kind == GUEST_OWN) {
                row->uid = geteuid();
                row->gid = getegid();
                snprintf(
                    note, ERR_TEXT_MAX,
                    "the guest has your own user id: %.400s. The sandbox alone keeps its processes from your files; "
                    "a second wall, an identity of its own, is missing",
                    why);
        }

        row->kind = str_dup(str_of(guest_kind_name(kind)));
        if (!row->kind)
                return no_memory(err);

        return 0;
}

static int wish_row(struct guests *guests, const struct guest_wish *wish, struct guest_row *row, char *note,
                    struct err *err) {
        char id[GUEST_ID_LENGTH + 1];
        int r = wish_kind(guests, wish, row, note, err);

        if (r < 0)
                return r;

        random_id(id, sizeof id);
        row->id = str_dup(str_of(id));
        row->name = str_dup(str_of(wish->name));
        row->state = str_dup(str_of(guest_state_name(GUEST_CREATING)));
        row->doing = str_dup(str_of(guest_step_name(STEP_CREATED)));
        row->before = str_dup(STR(""));
        row->reason = str_dup(STR(""));
        row->note = str_dup(STR(""));
        row->workspace = str_dup(STR(""));
        row->idle_s = wish->idle_s;
        row->disk = wish->disk;
        if (!row->id || !row->name || !row->state || !row->doing || !row->before || !row->reason || !row->note ||
            !row->workspace)
                return no_memory(err);

        return 0;
}

/* Its directory first, and locked: from the moment on that the row is there, nobody else takes it for abandoned. */
static int create_place(const struct guests *guests, const char *id, int *ret_lock, struct err *err) {
        cleanup(free_ptr) char *directory = path_join(guests->top, id);
        cleanup(free_ptr) char *lock = directory ? path_join(directory, "lock") : NULL;

        if (!lock)
                return no_memory(err);
        if (mkdir(directory, 0700) < 0)
                return err_errno(err, "cannot make %s", directory);

        cleanup(close_fd) int fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return err_errno(err, "cannot lock %s", directory);

        *ret_lock = take_fd(&fd);
        return 0;
}

static int create_rows(struct guests *guests, const struct guest_wish *wish, const struct guest_row *row,
                       struct err *err) {
        int r = guests_db_begin(guests->db, err);

        if (r < 0)
                return r;

        r = guests_db_add(guests->db, row, err);
        for (size_t i = 0; i < wish->settings.n && r == 0; i++)
                r = guest_setting_keep(guests, row->id, wish->settings.p[i].row, wish->settings.p[i].text, err);

        if (r == 0)
                return guests_db_commit(guests->db, err);

        guests_db_rollback(guests->db);
        return r;
}

static void create_undo(const struct guests *guests, const char *id) {
        cleanup(close_fd) int top = open(guests->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (top >= 0)
                (void)tree_remove(top, id);
}

int guest_create(struct guests *guests, const struct guest_wish *wish, struct guest *ret, char *note, struct err *err) {
        cleanup(guest_row_done) struct guest_row row = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(close_fd) int lock = -1;
        int r = guest_check_name(wish->name, err);

        if (r < 0)
                return r;

        if (wish->account && geteuid() != 0 && !guests->helper) {
                err_blame(err, ERR_REFUSED);
                return err_set(err, EPERM, "an account is made by root: sudo bailey guest create --account %s",
                               wish->name);
        }

        r = wish_row(guests, wish, &row, note, err);
        if (r == 0)
                r = create_place(guests, row.id, &lock, err);
        if (r < 0)
                return r;

        r = create_rows(guests, wish, &row, err);
        if (r < 0) {
                create_undo(guests, row.id);
                return r;
        }

        r = guest_of_row(guests, &row, &guest, err);
        if (r == 0)
                r = guest_create_finish(guests, &guest, err);

        if (r < 0) {
                /* What cannot be made is not left half made: nothing of the guest's was in it yet. */
                struct err again = { 0 };
                if (guest.fd >= 0 && guest_delete_finish(guests, &guest, false, &again) < 0)
                        log_warning("%s", err_text(&again));
                return r;
        }

        *ret = guest;
        guest = GUEST_NONE;

        return 0;
}

/* An account that was not made when the command was killed is not made now: nobody with root's rights is here. */
static int create_account(struct guests *guests, struct guest *guest, struct err *err) {
        uint32_t uid = 0, gid = 0;
        int r;

        if (!guest_account_find(guest->row.id, &uid, &gid) || guests->helper || geteuid() == 0) {
                r = guest_account_make(guests, guest->row.id, &uid, &gid, err);
                if (r < 0)
                        return r;
        }

        r = guests_db_set_ids(guests->db, guest->row.id, uid, gid, err);
        guest->row.uid = guest->ids.uid = guest->ids.inner_uid = uid;
        guest->row.gid = guest->ids.gid = guest->ids.inner_gid = gid;
        if (r < 0)
                return r;

        return guest_account_protect(guests, guest, err);
}

int guest_create_finish(struct guests *guests, struct guest *guest, struct err *err) {
        int r = 0;

        if (guest->fd < 0) {
                if (mkdir(guest->directory, 0700) < 0 && errno != EEXIST)
                        return err_errno(err, "cannot make %s", guest->directory);
                guest->fd = open(guest->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (guest->fd < 0)
                        return err_errno(err, "cannot open %s", guest->directory);
        }

        if (guest->kind == GUEST_ACCOUNT) {
                r = create_account(guests, guest, err);
                if (r == -EPERM) /* begun with root's rights and killed: what there is of it goes */
                        return guest_delete_finish(guests, guest, false, err);
        }

        if (r == 0)
                r = guest_home_make(guest, "home", err);
        if (r == 0)
                r = guest_write_info(guest, err);
        if (r < 0)
                return r;

        return guest_move(guests, guest, STEP_CREATED, "", NULL, NULL, err);
}

/*
 * The end of a guest.
 */
struct grants_work {
        const struct guest *guest;
        struct err *err;
};

static int grant_first(void *arg, const struct guest_grant *grant) {
        char **ret = arg;

        *ret = str_dup(str_of(grant->path));
        if (!*ret)
                return -ENOMEM;

        return 1;
}

/* What the guest made there must not be the next one's, which may get its id. One after the other: if this is killed,
 * what is left can be taken later, also when the guest's identity is gone by then. */
static int grants_end(struct guests *guests, const struct guest *guest, struct err *err) {
        for (;;) {
                cleanup(free_ptr) char *path = NULL;
                int r = guests_db_grants(guests->db, guest->row.id, grant_first, &path, err);

                if (r == -ENOMEM)
                        return no_memory(err);
                if (r <= 0)
                        return r;

                if (guest->kind == GUEST_OWN)
                        r = 0;
                else
                        r = guest_grant_take(guest, path, err);
                if (r == 0)
                        r = guests_db_remove_grant(guests->db, guest->row.id, path, err);
                if (r < 0)
                        return r;
                if (r == 0)
                        return err_set(err, ESTALE, "the grant of %s was taken back meanwhile", path);
        }
}

static int grant_fix(void *arg, const struct guest_grant *grant) {
        const struct grants_work *work = arg;
        struct err why = { 0 };

        if (work->guest->kind == GUEST_OWN)
                return 0;

        int r = guest_grant_fix(work->guest, grant->path, grant->write, &why);
        if (r == 0)
                return 0;
        if (!grant_is_gone(-guest_grant_look(grant->path)))
                return err_set(work->err, -r, "%s", err_text(&why));

        log_warning("%s was granted, and is not there: %s", grant->path, err_text(&why));
        return 0;
}

/* Everything of the host user's beside the home. */
static int delete_files(const struct guest *guest, bool keep, struct err *err) {
        static const char *const names[] = { "snapshots",      GUEST_ARCHIVE_NAME, "jobs",     "run.log",
                                             "socket",         "run.id",           "home.new", "pack.part",
                                             "ports",          "firewall",         "disk",     "limit",
                                             GUEST_GROUPS_FILE };
        /* Then the archive is its home; what else there is under that name may be half removed. */
        bool packed = keep && guest_is_archived(guest);
        int r = 0;

        for (size_t i = 0; i < sizeof names / sizeof *names && r == 0; i++) {
                if (packed && strcmp(names[i], GUEST_ARCHIVE_NAME) == 0)
                        continue;
                if (strcmp(names[i], "home.new") == 0)
                        r = guest_home_remove(guest, names[i], err);
                else
                        r = tree_remove(guest->fd, names[i]);
        }

        if (r < 0)
                return err_set(err, -r, "cannot remove what belongs to the guest in %s: %s", guest->directory,
                               strerror(-r));

        if (keep)
                return 0;

        return guest_home_remove(guest, "home", err);
}

/* Rules that were approved for this guest hold for no other. */
static void delete_rules(const struct guest *guest) {
        cleanup(state_closep) struct state *state = NULL;
        struct err why = { 0 };

        if (state_open(&state, &why) < 0 || state_forget_workspace(state, guest->home, &why) < 0)
                log_warning("rules for the guest %s stay remembered: %s", guest->row.name, err_text(&why));
}

int guest_delete_finish(struct guests *guests, struct guest *guest, bool keep, struct err *err) {
        int r = grants_end(guests, guest, err);

        if (r == 0 && guest->fd >= 0) {
                firewall_reader_stop(guest);
                r = delete_files(guest, keep, err);
        }
        if (r == 0 && guest->kind == GUEST_ACCOUNT && !keep)
                r = guest_account_remove(guests, guest->row.id, err);
        if (r < 0)
                return r;

        delete_rules(guest);
        if (!keep)
                create_undo(guests, guest->row.id);

        return guest_move(guests, guest, STEP_DELETE, keep ? GUEST_NOTE_KEEP : "", NULL, NULL, err);
}

int guest_delete(struct guests *guests, struct guest *guest, bool keep, struct err *err) {
        int r = guest_begin(guests, guest, STEP_DELETE, keep ? GUEST_NOTE_KEEP : "", err);

        if (r < 0)
                return r;

        return guest_delete_finish(guests, guest, keep, err);
}

int guest_rename(struct guests *guests, struct guest *guest, const char *name, struct err *err) {
        int r = guest_check_name(name, err);

        if (r < 0)
                return r;

        char *copy = str_dup(str_of(name));
        if (!copy)
                return no_memory(err);

        r = guests_db_rename(guests->db, guest->row.id, name, err);
        if (r < 0) {
                free(copy);
                return r;
        }

        free(guest->row.name);
        guest->row.name = copy;

        return guest_write_info(guest, err);
}

int guest_fix(struct guests *guests, struct guest *guest, struct err *err) {
        struct grants_work grants = { guest, err };
        int r = guest_mend(guests, guest, err);

        if (r < 0)
                return r;
        if (guest->state == GUEST_ARCHIVED)
                return 0;

        if (guest->fd < 0 || faccessat(guest->fd, "home", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return err_set(err, ENOENT,
                               "the home of the guest %s is gone: restore a snapshot (`bailey guest snapshots`), or "
                               "delete the guest",
                               guest->row.name);

        r = guest_home_fix(guest, "home", err);
        if (r == 0)
                r = guests_db_grants(guests->db, guest->row.id, grant_fix, &grants, err);
        if (r < 0)
                return r;

        return guest_mend(guests, guest, err);
}
