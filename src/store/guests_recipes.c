/* SPDX-License-Identifier: Apache-2.0 */
/* What provisioning did to a guest: steps with their digests, and the variables that recipes set. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "store/guests_internal.h"

int guests_db_set_provision(struct guests_db *db, const char *id, const struct guest_provision *step, struct err *err) {
        const struct value values[] = { TEXT(id),           TEXT(step->recipe),      TEXT(step->step),
                                        TEXT(step->digest), NUMBER(clock_wall_us()), NUMBER(step->ok),
                                        TEXT(step->tail) };

        return guests_sql_run(db,
                              "INSERT OR REPLACE INTO provision (guest, recipe, step, digest, at_us, ok, tail)"
                              " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                              values, 7, err);
}

int guests_db_is_provisioned(struct guests_db *db, const char *id, const struct guest_provision *step,
                             struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id), TEXT(step->recipe), TEXT(step->step), TEXT(step->digest) };
        int r = guests_sql_prepare(db,
                                   "SELECT 1 FROM provision WHERE guest = ?1 AND recipe = ?2 AND step = ?3"
                                   " AND digest = ?4 AND ok",
                                   values, 4, &query, err);

        if (r < 0)
                return r;

        return guests_sql_next(db, query, err);
}

int guests_db_provision(struct guests_db *db, const char *id, guests_on_provision *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r = guests_sql_prepare(db,
                                   "SELECT recipe, step, digest, at_us, ok, tail FROM provision WHERE guest = ?1"
                                   " ORDER BY at_us, rowid",
                                   values, 1, &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                const struct guest_provision step = { .recipe = guests_sql_text(query, 0),
                                                      .step = guests_sql_text(query, 1),
                                                      .digest = guests_sql_text(query, 2),
                                                      .at_us = guests_sql_number(query, 3),
                                                      .ok = guests_sql_number(query, 4) != 0,
                                                      .tail = guests_sql_text(query, 5) };
                r = on(arg, &step);
        }
        return r;
}

int guests_db_forget_provision(struct guests_db *db, const char *id, struct err *err) {
        const struct value values[] = { TEXT(id) };

        return guests_sql_run(db, "UPDATE provision SET ok = 0 WHERE guest = ?1", values, 1, err);
}

int guests_db_remove_setting(struct guests_db *db, const char *id, const char *flag, const char *text,
                             struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(flag), TEXT(text) };

        return guests_sql_run(db, "DELETE FROM settings WHERE guest = ?1 AND flag = ?2 AND text = ?3", values, 3, err);
}

int guests_db_clear_setting(struct guests_db *db, const char *id, const char *flag, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(flag) };

        return guests_sql_run(db, "DELETE FROM settings WHERE guest = ?1 AND flag = ?2", values, 2, err);
}

int guests_db_clear_variables(struct guests_db *db, const char *id, const char *recipe, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(recipe) };

        return guests_sql_run(db, "DELETE FROM variables WHERE guest = ?1 AND recipe = ?2", values, 2, err);
}

int guests_db_add_variable(struct guests_db *db, const char *id, const char *recipe, const char *name,
                           const char *value, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(recipe), TEXT(name), TEXT(value) };

        return guests_sql_run(db,
                              "INSERT INTO variables (guest, recipe, position, name, value) SELECT ?1, ?2,"
                              " 1 + coalesce(max(position), 0), ?3, ?4 FROM variables WHERE guest = ?1 AND recipe = ?2",
                              values, 4, err);
}

int guests_db_variables(struct guests_db *db, const char *id, guests_on_variable *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r = guests_sql_prepare(db, "SELECT name, value FROM variables WHERE guest = ?1 ORDER BY rowid", values, 1,
                                   &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0)
                r = on(arg, guests_sql_text(query, 0), guests_sql_text(query, 1));
        return r;
}
