/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/sandboxes/sandbox_names.h"

#include "base/cleanup.h"
#include "control/client.h"
#include "guest/guest_place.h"
#include "guest/guest_start.h"
#include "store/audit_place.h"

#include <errno.h>
#include <stdio.h>

static bool ids_hold(const control_ids *ids, const char *id) {
        for (size_t i = 0; i < ids->n; i++)
                if (strcmp(ids->p[i], id) == 0)
                        return true;
        return false;
}

static int name_copy(const char *text, char **ret, struct err *err) {
        *ret = str_dup(str_of(text));
        if (!*ret)
                return err_memory(err);

        return 0;
}

static int name_is_moving(const char *word, struct err *err) {
        return err_set(err, ENOENT, "the guest %s is about to start or to end", word);
}

/* 1: the id of its sandbox is in ret_id. 0: no guest has this name. One that does not run is an error: its name must
 * not become the beginning of somebody's id. */
static int name_find_guest(const char *word, char ret_id[static CONTROL_ID_MAX], struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        struct err none = { 0 };
        int r;

        if (guest_check_name(word, &none) < 0 || !guests_are_there())
                return 0;

        r = guests_open_as_is(&guests, err);
        if (r < 0)
                return err_wrap(err, r, "whether %s is a guest cannot be told; give the whole id", word);

        r = guest_find(&guests, word, &guest, &none);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return err_set(err, none.code, "%s", err_text(&none));

        if (strcmp(guest.row.name, word) != 0)
                return err_set(err, EINVAL, "%s is the id of the guest %s; give its name", word, guest.row.name);
        if (!guest_is_running(&guest))
                return err_set(err, ENOENT, "the guest %s is not running", word);

        guest_run_id(&guest, ret_id);
        if (!ret_id[0])
                return name_is_moving(word, err);

        return 1;
}

static int name_is_both(const char *word, struct err *err) {
        return err_set(
            err, EINVAL,
            "%s is the id of one sandbox and the name of another, a guest; give the beginning of the id that "
            "is meant",
            word);
}

int names_sandbox(const char *word, char **ret, struct err *err) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        char guest[CONTROL_ID_MAX] = "";
        struct err why = { 0 };
        int r = control_list(&ids, err);

        if (r < 0)
                return r;

        bool whole = ids_hold(&ids, word);
        int named = name_find_guest(word, guest, &why);

        if (whole && named > 0 && strcmp(guest, word) != 0)
                return name_is_both(word, err);
        if (whole)
                return name_copy(word, ret, err);
        if (named < 0)
                return err_set(err, why.code, "%s", err_text(&why));
        if (named == 0)
                return control_resolve(word, ret, err);

        /* A run that was killed may have left its id behind. */
        if (!ids_hold(&ids, guest))
                return name_is_moving(word, err);

        return name_copy(guest, ret, err);
}

/* A run that was killed may have left its id behind. */
static int name_must_live(const char *word, const char *id, struct err *err) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        int r = control_list(&ids, err);

        if (r < 0)
                return r;
        if (ids_hold(&ids, id))
                return 0;

        return name_is_moving(word, err);
}

static bool run_is_on_record(const char *word) {
        cleanup(free_ptr) char *path = NULL;
        struct err none = { 0 };

        return audit_find_run(word, &path, &none) == 0 && str_is(audit_run_id(path), word);
}

int names_run(const char *word, char **ret, struct err *err) {
        char guest[CONTROL_ID_MAX] = "";
        struct err why = { 0 };

        *ret = NULL;
        if (!word)
                return 0;

        bool whole = run_is_on_record(word);
        int named = name_find_guest(word, guest, &why);

        if (whole && named > 0 && strcmp(guest, word) != 0)
                return name_is_both(word, err);
        if (!whole && named < 0)
                return err_set(err, why.code, "%s", err_text(&why));
        if (!whole && named > 0) {
                int r = name_must_live(word, guest, err);
                if (r < 0)
                        return r;
        }

        return name_copy(!whole && named > 0 ? guest : word, ret, err);
}

/*
 * The other way round.
 */
static void names_add(const struct guests *guests, struct guest_row *row, guest_names *ret) {
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        struct guest_name one = { 0 };
        struct err none = { 0 };

        if (guest_of_row(guests, row, &guest, &none) < 0)
                return;

        /* To look at the lock of one that is about to start would be in its way. */
        bool expected = guest.state == GUEST_RUNNING || guest.row.doing[0];
        if (!expected || !guest_is_running(&guest))
                return;

        guest_run_id(&guest, one.id);
        snprintf(one.name, sizeof one.name, "%s", guest.row.name);
        (void)vec_push(ret, one);
}

void names_of_guests(guest_names *ret) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        struct err none = { 0 };

        if (!guests_are_there() || guests_open_as_is(&guests, &none) < 0 ||
            guests_db_list(guests.db, false, &rows, &none) < 0)
                return;

        for (size_t i = 0; i < rows.n; i++)
                names_add(&guests, &rows.p[i], ret);
}

void guest_names_done(guest_names *names) {
        vec_done(names);
}

const char *names_guest(const guest_names *names, const char *id) {
        for (size_t i = 0; i < names->n; i++)
                if (strcmp(names->p[i].id, id) == 0)
                        return names->p[i].name;
        return "";
}
