/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory: as store/state.c. The schema's version is user_version, and migrations[] takes a database from each version
 * to the next in one transaction. A database that is newer than this program, or damaged, is left alone: homes of
 * guests do not depend on it, and a new one takes them over from the file that lies beside each (guest/guest_place.h).
 */
#include "store/guests.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths/path.h"
#include "store/guests_internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum { WAIT_MS = 5000, GUESTS_MAX = 100000 };

static const char *const migrations[] = {
        /* 1 */
        "CREATE TABLE guests (id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, uid INTEGER NOT NULL,"
        " gid INTEGER NOT NULL, state TEXT NOT NULL, before TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',"
        " doing TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '', workspace TEXT NOT NULL DEFAULT '',"
        " idle_s INTEGER NOT NULL DEFAULT 0, made_us INTEGER NOT NULL, changed_us INTEGER NOT NULL,"
        " used_us INTEGER NOT NULL);"
        "CREATE UNIQUE INDEX guests_by_name ON guests (name) WHERE state <> 'deleted';"
        "CREATE TABLE steps (id INTEGER PRIMARY KEY, guest TEXT NOT NULL, at_us INTEGER NOT NULL, step TEXT NOT NULL,"
        " state TEXT NOT NULL, note TEXT NOT NULL);"
        "CREATE INDEX steps_by_guest ON steps (guest, id);"
        "CREATE TABLE settings (id INTEGER PRIMARY KEY, guest TEXT NOT NULL, flag TEXT NOT NULL, text TEXT NOT NULL);"
        "CREATE TABLE grants (guest TEXT NOT NULL, path TEXT NOT NULL, access TEXT NOT NULL, at_us INTEGER NOT NULL,"
        " PRIMARY KEY (guest, path));"
        "CREATE TABLE snapshots (guest TEXT NOT NULL, label TEXT NOT NULL, at_us INTEGER NOT NULL,"
        " bytes INTEGER NOT NULL, PRIMARY KEY (guest, label));"
        "CREATE TABLE jobs (guest TEXT NOT NULL, number INTEGER NOT NULL, command TEXT NOT NULL, state TEXT NOT NULL,"
        " status INTEGER NOT NULL DEFAULT 0, started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL DEFAULT 0,"
        " PRIMARY KEY (guest, number));",
        /* 2 */
        "CREATE TABLE provision (guest TEXT NOT NULL, recipe TEXT NOT NULL, step TEXT NOT NULL, digest TEXT NOT NULL,"
        " at_us INTEGER NOT NULL, ok INTEGER NOT NULL, tail TEXT NOT NULL, PRIMARY KEY (guest, recipe, step));"
        "CREATE TABLE variables (guest TEXT NOT NULL, recipe TEXT NOT NULL, position INTEGER NOT NULL,"
        " name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (guest, recipe, position));",
        /* 3 */
        "ALTER TABLE guests ADD COLUMN disk INTEGER NOT NULL DEFAULT 0;",
        /* 4 */
        "ALTER TABLE grants ADD COLUMN object TEXT NOT NULL DEFAULT '';",
};
enum { VERSION = sizeof migrations / sizeof *migrations };

void guests_db_close(struct guests_db *db) {
        if (!db)
                return;
        sqlite3_close(db->db);
        free(db->path);
        free(db);
}

void guests_db_closep(struct guests_db **db) {
        guests_db_close(*db);
}

void guest_row_done(struct guest_row *row) {
        char **const texts[] = { &row->id,     &row->name,  &row->kind, &row->state,    &row->before,
                                 &row->reason, &row->doing, &row->note, &row->workspace };

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                free(*texts[i]);
        *row = (struct guest_row){ 0 };
}

void guest_rows_done(guest_rows *rows) {
        for (size_t i = 0; i < rows->n; i++)
                guest_row_done(&rows->p[i]);
        vec_done(rows);
}

/* SQLite names a disk that is full as such only where it writes the database itself, not its index of the log. */
static bool disk_is_full(const struct guests_db *db) {
        struct statvfs st;

        return sqlite3_system_errno(db->db) == ENOSPC || (statvfs(db->path, &st) == 0 && st.f_bavail == 0);
}

static int db_fault(const struct guests_db *db, struct err *err) {
        int code = sqlite3_errcode(db->db);

        if (code == SQLITE_IOERR && disk_is_full(db))
                code = SQLITE_FULL;
        switch (code) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return err_set(err, EBADMSG,
                               "%s is damaged (%s). Move it away (mv %s %s.broken) and try again: homes, snapshots and "
                               "archives of guests do not lie in it, and are taken over",
                               db->path, sqlite3_errmsg(db->db), db->path, db->path);
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return err_set(err, EBUSY, "%s is held by another process; try again", db->path);
        case SQLITE_READONLY:
        case SQLITE_CANTOPEN:
        case SQLITE_PERM:
                return err_set(err, EROFS,
                               "%s cannot be written (%s): the file, its directory and the file system must be "
                               "writable for you",
                               db->path, sqlite3_errmsg(db->db));
        case SQLITE_FULL:
                return err_set(err, ENOSPC, "%s: there is no room left on the disk", db->path);
        case SQLITE_NOMEM:
                return err_memory(err);
        default:
                return err_set(err, EIO, "%s: %s", db->path, sqlite3_errmsg(db->db));
        }
}

static int db_execute(struct guests_db *db, const char *sql, struct err *err) {
        if (sqlite3_exec(db->db, sql, NULL, NULL, NULL) != SQLITE_OK)
                return db_fault(db, err);

        return 0;
}

void guests_sql_finish(sqlite3_stmt **query) {
        sqlite3_finalize(*query);
}

int guests_sql_prepare(struct guests_db *db, const char *sql, const struct value *values, int n, sqlite3_stmt **ret,
                       struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;

        if (sqlite3_prepare_v2(db->db, sql, -1, &query, NULL) != SQLITE_OK)
                return db_fault(db, err);
        for (int i = 0; i < n; i++) {
                int r = values[i].text ? sqlite3_bind_text(query, i + 1, values[i].text, -1, SQLITE_TRANSIENT)
                                       : sqlite3_bind_int64(query, i + 1, (sqlite3_int64)values[i].number);
                if (r != SQLITE_OK)
                        return db_fault(db, err);
        }

        *ret = take_ptr(&query);
        return 0;
}

int guests_sql_run(struct guests_db *db, const char *sql, const struct value *values, int n, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        int r = guests_sql_prepare(db, sql, values, n, &query, err);

        if (r < 0)
                return r;
        if (sqlite3_step(query) != SQLITE_DONE)
                return db_fault(db, err);

        return 0;
}

static int db_number(struct guests_db *db, const char *sql, const struct value *values, int n, uint64_t *ret,
                     struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        int r = guests_sql_prepare(db, sql, values, n, &query, err);

        if (r < 0)
                return r;
        if (sqlite3_step(query) != SQLITE_ROW)
                return db_fault(db, err);
        *ret = (uint64_t)sqlite3_column_int64(query, 0);
        return 0;
}

/* 1: a row; 0: there are no more. */
int guests_sql_next(struct guests_db *db, sqlite3_stmt *query, struct err *err) {
        switch (sqlite3_step(query)) {
        case SQLITE_ROW:
                return 1;
        case SQLITE_DONE:
                return 0;
        default:
                return db_fault(db, err);
        }
}

const char *guests_sql_text(sqlite3_stmt *query, int i) {
        const char *text = (const char *)sqlite3_column_text(query, i);
        return text_or(text, "");
}

uint64_t guests_sql_number(sqlite3_stmt *query, int i) {
        return (uint64_t)sqlite3_column_int64(query, i);
}

/*
 * Opening.
 */
static int db_migrate(struct guests_db *db, bool *ret_fresh, struct err *err) {
        uint64_t version = 0;
        char set[64];
        int r = db_number(db, "PRAGMA user_version", NULL, 0, &version, err);

        if (r < 0 || version == VERSION) /* nearly always: nothing is written, and nothing waits for the disk */
                return r;

        r = guests_db_begin(db, err);
        if (r < 0)
                return r;
        r = db_number(db, "PRAGMA user_version", NULL, 0, &version, err);
        if (r == 0 && version > VERSION)
                r = err_set(err, EPROTO,
                            "%s was written by a newer Bailey (version %ju, this one knows %d): update Bailey; nothing "
                            "was changed",
                            db->path, (uintmax_t)version, VERSION);

        *ret_fresh = version == 0;
        for (; r == 0 && version < VERSION; version++)
                r = db_execute(db, migrations[version], err);
        if (r == 0) {
                snprintf(set, sizeof set, "PRAGMA user_version = %ju", (uintmax_t)version);
                r = db_execute(db, set, err);
        }
        if (r == 0 && *ret_fresh) /* the caller goes on with it */
                return 0;
        if (r == 0)
                return guests_db_commit(db, err);

        guests_db_rollback(db);
        return r;
}

int guests_db_open(const char *path, struct guests_db **ret, bool *ret_fresh, struct err *err) {
        int r = path_make_private_file(path, err);

        if (r < 0)
                return r;
        cleanup(guests_db_closep) struct guests_db *db = calloc(1, sizeof *db);
        if (!db || !(db->path = strdup(path)))
                return err_memory(err);

        if (sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL) !=
            SQLITE_OK) {
                if (db->db)
                        return db_fault(db, err);
                return err_memory(err);
        }
        sqlite3_busy_timeout(db->db, WAIT_MS);
        r = db_execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", err);
        if (r < 0)
                return r;
        r = db_migrate(db, ret_fresh, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&db);
        return 0;
}

int guests_db_begin(struct guests_db *db, struct err *err) {
        return db_execute(db, "BEGIN IMMEDIATE", err);
}

int guests_db_commit(struct guests_db *db, struct err *err) {
        return db_execute(db, "COMMIT", err);
}

void guests_db_rollback(struct guests_db *db) {
        (void)db_execute(db, "ROLLBACK", NULL); /* the first error is the one to tell */
}

/*
 * Guests.
 */
#define GUEST_COLUMNS                                                                                                  \
        "id, name, kind, state, before, reason, doing, note, workspace, uid, gid, idle_s, made_us, changed_us, "       \
        "used_us, disk"

static int row_read(sqlite3_stmt *query, struct guest_row *ret, struct err *err) {
        struct guest_row row = { .uid = (uint32_t)guests_sql_number(query, 9),
                                 .gid = (uint32_t)guests_sql_number(query, 10),
                                 .idle_s = guests_sql_number(query, 11),
                                 .made_us = guests_sql_number(query, 12),
                                 .changed_us = guests_sql_number(query, 13),
                                 .used_us = guests_sql_number(query, 14),
                                 .disk = guests_sql_number(query, 15) };
        char **const texts[] = { &row.id,     &row.name,  &row.kind, &row.state,    &row.before,
                                 &row.reason, &row.doing, &row.note, &row.workspace };

        for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
                *texts[i] = strdup(guests_sql_text(query, i));
                if (!*texts[i]) {
                        guest_row_done(&row);
                        return err_memory(err);
                }
        }
        *ret = row;
        return 0;
}

int guests_db_list(struct guests_db *db, bool deleted, guest_rows *ret, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        const struct value values[] = { TEXT(deleted ? "" : "deleted") };
        int r = guests_sql_prepare(db, "SELECT " GUEST_COLUMNS " FROM guests WHERE state <> ?1 ORDER BY name, made_us",
                                   values, 1, &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                struct guest_row row = { 0 };
                if (rows.n < GUESTS_MAX)
                        r = row_read(query, &row, err);
                else
                        r = err_set(err, E2BIG, "too many guests");
                if (r == 0 && vec_push(&rows, row) < 0) {
                        guest_row_done(&row);
                        r = err_memory(err);
                }
        }
        if (r < 0)
                return r;
        *ret = rows;
        rows = (guest_rows){ 0 };
        return 0;
}

int guests_db_find(struct guests_db *db, const char *name, struct guest_row *ret, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(name) };
        int r = guests_sql_prepare(
            db, "SELECT " GUEST_COLUMNS " FROM guests WHERE state <> 'deleted' AND (name = ?1 OR id = ?1) LIMIT 1",
            values, 1, &query, err);

        if (r < 0)
                return r;
        r = guests_sql_next(db, query, err);
        if (r == 0)
                return err_set(err, ENOENT, "there is no guest %s; see `bailey guest ls`", name);
        if (r < 0)
                return r;

        return row_read(query, ret, err);
}

static int step_add(struct guests_db *db, const char *id, const struct guest_change *change, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(clock_wall_us()), TEXT(change->step),
                                        TEXT(text_or(change->state, "")), TEXT(text_or(change->reason, "")) };

        return guests_sql_run(db, "INSERT INTO steps (guest, at_us, step, state, note) VALUES (?1, ?2, ?3, ?4, ?5)",
                              values, 5, err);
}

int guests_db_add(struct guests_db *db, const struct guest_row *row, struct err *err) {
        const struct value values[] = { TEXT(row->id),     TEXT(row->name),         TEXT(row->kind),
                                        NUMBER(row->uid),  NUMBER(row->gid),        TEXT(row->state),
                                        TEXT(row->doing),  TEXT(row->workspace),    NUMBER(row->idle_s),
                                        TEXT(row->reason), NUMBER(clock_wall_us()), NUMBER(row->disk) };
        const struct guest_change first = { .step = "create", .state = row->state };
        int r = guests_sql_run(
            db,
            "INSERT INTO guests (id, name, kind, uid, gid, state, doing, workspace, idle_s, reason, made_us,"
            " changed_us, used_us, disk) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11, ?12)",
            values, 12, err);

        if (r < 0 && sqlite3_errcode(db->db) == SQLITE_CONSTRAINT)
                return err_set(err, EEXIST, "there is a guest %s already; see `bailey guest ls`", row->name);
        if (r < 0)
                return r;

        return step_add(db, row->id, &first, err);
}

int guests_db_rename(struct guests_db *db, const char *id, const char *name, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(name) };
        const struct guest_change step = { .step = "rename", .reason = name };
        int r = guests_sql_run(db, "UPDATE guests SET name = ?2 WHERE id = ?1", values, 2, err);

        if (r < 0 && sqlite3_errcode(db->db) == SQLITE_CONSTRAINT)
                return err_set(err, EEXIST, "there is a guest %s already; see `bailey guest ls`", name);
        if (r < 0)
                return r;

        return step_add(db, id, &step, err);
}

int guests_db_change(struct guests_db *db, const char *id, const struct guest_change *change, struct err *err) {
        const char *const texts[] = { change->state, change->before, change->reason, change->doing, change->note };
        static const char *const columns[] = { "state", "before", "reason", "doing", "note" };
        bool alone = sqlite3_get_autocommit(db->db);
        int r = 0;

        if (alone)
                r = guests_db_begin(db, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof texts / sizeof *texts && r == 0; i++) {
                char sql[128];
                const struct value values[] = { TEXT(id), TEXT(texts[i]), NUMBER(clock_wall_us()) };
                if (!texts[i])
                        continue;
                snprintf(sql, sizeof sql, "UPDATE guests SET %s = ?2, changed_us = ?3 WHERE id = ?1", columns[i]);
                r = guests_sql_run(db, sql, values, 3, err);
        }
        if (r == 0)
                r = step_add(db, id, change, err);
        if (r == 0 && alone)
                r = guests_db_commit(db, err);
        if (r < 0 && alone)
                guests_db_rollback(db);
        return r;
}

int guests_db_used(struct guests_db *db, const char *id, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(clock_wall_us()) };

        return guests_sql_run(
            db, "UPDATE guests SET used_us = ?2 WHERE id = ?1 AND (used_us < ?2 - 60000000 OR used_us > ?2)", values, 2,
            err);
}

int guests_db_set_ids(struct guests_db *db, const char *id, uint32_t uid, uint32_t gid, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(uid), NUMBER(gid) };

        return guests_sql_run(db, "UPDATE guests SET uid = ?2, gid = ?3 WHERE id = ?1", values, 3, err);
}

int guests_db_set_idle(struct guests_db *db, const char *id, uint64_t seconds, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(seconds) };

        return guests_sql_run(db, "UPDATE guests SET idle_s = ?2 WHERE id = ?1", values, 2, err);
}

int guests_db_set_disk(struct guests_db *db, const char *id, uint64_t bytes, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(bytes) };

        return guests_sql_run(db, "UPDATE guests SET disk = ?2 WHERE id = ?1", values, 2, err);
}

int guests_db_steps(struct guests_db *db, const char *id, unsigned max, guests_on_step *on, void *arg,
                    struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id), NUMBER(max) };
        int r = guests_sql_prepare(
            db, "SELECT at_us, step, state, note FROM steps WHERE guest = ?1 ORDER BY id DESC LIMIT ?2", values, 2,
            &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                const struct guest_step step = { guests_sql_number(query, 0), guests_sql_text(query, 1),
                                                 guests_sql_text(query, 2), guests_sql_text(query, 3) };
                r = on(arg, &step);
        }
        return r;
}

/*
 * What belongs to a guest.
 */
int guests_db_add_setting(struct guests_db *db, const char *id, const char *flag, const char *text, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(flag), TEXT(text) };

        return guests_sql_run(db, "INSERT INTO settings (guest, flag, text) VALUES (?1, ?2, ?3)", values, 3, err);
}

int guests_db_settings(struct guests_db *db, const char *id, guests_on_setting *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r = guests_sql_prepare(db, "SELECT flag, text FROM settings WHERE guest = ?1 ORDER BY id", values, 1,
                                   &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0)
                r = on(arg, guests_sql_text(query, 0), guests_sql_text(query, 1));
        return r;
}

int guests_db_add_grant(struct guests_db *db, const char *id, const struct guest_grant *grant, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(grant->path), TEXT(grant->write ? "rw" : "ro"),
                                        NUMBER(clock_wall_us()), TEXT(grant->object) };

        return guests_sql_run(db,
                              "INSERT OR REPLACE INTO grants (guest, path, access, at_us, object)"
                              " VALUES (?1, ?2, ?3, ?4, ?5)",
                              values, 5, err);
}

int guests_db_remove_grant(struct guests_db *db, const char *id, const char *path, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(path) };
        int r = guests_sql_run(db, "DELETE FROM grants WHERE guest = ?1 AND path = ?2", values, 2, err);

        if (r < 0)
                return r;

        return sqlite3_changes(db->db);
}

int guests_db_grants(struct guests_db *db, const char *id, guests_on_grant *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r = guests_sql_prepare(db, "SELECT path, access, at_us, object FROM grants WHERE guest = ?1 ORDER BY path",
                                   values, 1, &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                const struct guest_grant grant = { guests_sql_text(query, 0),
                                                   strcmp(guests_sql_text(query, 1), "rw") == 0,
                                                   guests_sql_number(query, 2), guests_sql_text(query, 3) };
                r = on(arg, &grant);
        }
        return r;
}

int guests_db_add_snapshot(struct guests_db *db, const char *id, const char *label, uint64_t bytes, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(label), NUMBER(clock_wall_us()), NUMBER(bytes) };
        int r = guests_sql_run(db, "INSERT INTO snapshots (guest, label, at_us, bytes) VALUES (?1, ?2, ?3, ?4)", values,
                               4, err);

        if (r < 0 && sqlite3_errcode(db->db) == SQLITE_CONSTRAINT)
                return err_set(err, EEXIST, "there is a snapshot %s already", label);
        return r;
}

int guests_db_remove_snapshot(struct guests_db *db, const char *id, const char *label, struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(label) };
        int r = guests_sql_run(db, "DELETE FROM snapshots WHERE guest = ?1 AND label = ?2", values, 2, err);

        if (r < 0)
                return r;

        return sqlite3_changes(db->db);
}

int guests_db_snapshots(struct guests_db *db, const char *id, guests_on_snapshot *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r = guests_sql_prepare(db, "SELECT label, at_us, bytes FROM snapshots WHERE guest = ?1 ORDER BY at_us",
                                   values, 1, &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                const struct guest_snapshot snapshot = { guests_sql_text(query, 0), guests_sql_number(query, 1),
                                                         guests_sql_number(query, 2) };
                r = on(arg, &snapshot);
        }
        return r;
}

int guests_db_add_job(struct guests_db *db, const char *id, const char *command, uint64_t *ret_number,
                      struct err *err) {
        const struct value values[] = { TEXT(id), TEXT(command), NUMBER(clock_wall_us()) };
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        int r = guests_sql_prepare(db,
                                   "INSERT INTO jobs (guest, number, command, state, started_us) SELECT ?1,"
                                   " 1 + coalesce(max(number), 0), ?2, 'running', ?3 FROM jobs WHERE guest = ?1"
                                   " RETURNING number",
                                   values, 3, &query, err);

        if (r < 0)
                return r;
        if (sqlite3_step(query) != SQLITE_ROW)
                return db_fault(db, err);
        *ret_number = guests_sql_number(query, 0);
        if (sqlite3_step(query) != SQLITE_DONE)
                return db_fault(db, err);

        return 0;
}

int guests_db_end_job(struct guests_db *db, const char *id, uint64_t number, const char *state, int status,
                      struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(number), TEXT(state), NUMBER((uint64_t)status),
                                        NUMBER(clock_wall_us()) };

        return guests_sql_run(db,
                              "UPDATE jobs SET state = ?3, status = ?4, ended_us = ?5 WHERE guest = ?1 AND number = ?2"
                              " AND state = 'running'",
                              values, 5, err);
}

int guests_db_lose_jobs(struct guests_db *db, const char *id, struct err *err) {
        const struct value values[] = { TEXT(id), NUMBER(clock_wall_us()) };

        return guests_sql_run(db,
                              "UPDATE jobs SET state = 'lost', status = 137, ended_us = ?2 WHERE guest = ?1"
                              " AND state = 'running'",
                              values, 2, err);
}

int guests_db_jobs(struct guests_db *db, const char *id, guests_on_job *on, void *arg, struct err *err) {
        cleanup(guests_sql_finish) sqlite3_stmt *query = NULL;
        const struct value values[] = { TEXT(id) };
        int r =
            guests_sql_prepare(db,
                               "SELECT number, command, state, status, started_us, ended_us FROM jobs WHERE guest = ?1"
                               " ORDER BY number",
                               values, 1, &query, err);

        while (r == 0 && (r = guests_sql_next(db, query, err)) > 0) {
                const struct guest_job job = { .number = guests_sql_number(query, 0),
                                               .command = guests_sql_text(query, 1),
                                               .state = guests_sql_text(query, 2),
                                               .status = (int)guests_sql_number(query, 3),
                                               .started_us = guests_sql_number(query, 4),
                                               .ended_us = guests_sql_number(query, 5) };
                r = on(arg, &job);
        }
        return r;
}
