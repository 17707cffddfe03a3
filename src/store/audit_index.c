/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory: `runs` has, for each log, the file (by inode, since rotation renames files) and the byte up to which it was
 * read. A step opens a transaction, reads that place again (another process may have gone on), takes in lines, writes
 * the place and commits. An interrupted step leaves the index unchanged.
 *
 * Nothing waits for the disk (synchronous = OFF): after a power failure the index may be damaged, and is built anew.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "store/audit_index_internal.h"
#include "store/audit_place.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_VERSION = 1, WAIT_MS = 10000, STEP_ALL = 20000 };

static const char schema[] =
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, run TEXT NOT NULL DEFAULT '',"
    " first_us INTEGER NOT NULL DEFAULT 0, last_us INTEGER NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0,"
    " allowed INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, bytes_in INTEGER NOT NULL DEFAULT 0,"
    " bytes_out INTEGER NOT NULL DEFAULT 0, mode TEXT NOT NULL DEFAULT '', workspace TEXT NOT NULL DEFAULT '',"
    " command TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT '', closed INTEGER NOT NULL DEFAULT 0,"
    " broken TEXT NOT NULL DEFAULT '', inode INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0,"
    " seq INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE records (run INTEGER NOT NULL, seq INTEGER NOT NULL, at_us INTEGER NOT NULL, verdict INTEGER NOT "
    "NULL,"
    " kind TEXT NOT NULL, host TEXT, path TEXT, rule TEXT, credentials TEXT, inode INTEGER NOT NULL,"
    " at INTEGER NOT NULL, length INTEGER NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID;"
    "CREATE INDEX records_at ON records (at_us, run, seq);"
    "CREATE INDEX records_host ON records (host, at_us) WHERE host IS NOT NULL;"
    "CREATE TABLE hosts (run INTEGER NOT NULL, name TEXT NOT NULL, port INTEGER NOT NULL, allowed INTEGER NOT NULL,"
    " refused INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, first_us INTEGER NOT NULL,"
    " last_us INTEGER NOT NULL, rule TEXT, reason TEXT, PRIMARY KEY (run, name, port)) WITHOUT ROWID;"
    "CREATE TABLE names (run INTEGER NOT NULL, what INTEGER NOT NULL, name TEXT NOT NULL, allowed INTEGER NOT NULL,"
    " refused INTEGER NOT NULL, first_us INTEGER NOT NULL, last_us INTEGER NOT NULL,"
    " PRIMARY KEY (run, what, name)) WITHOUT ROWID;";

void audit_index_free(struct audit_index *ix) {
        if (!ix)
                return;

        index_finish(&ix->add_record);
        index_finish(&ix->add_host);
        index_finish(&ix->add_name);
        index_finish(&ix->set_run);
        sqlite3_close(ix->db);

        for (size_t i = 0; i < ix->work.n; i++)
                free(ix->work.p[i].path);
        vec_done(&ix->work);
        for (size_t i = 0; i < sizeof ix->texts / sizeof *ix->texts; i++)
                buf_done(&ix->texts[i]);
        free(ix->path);
        free(ix);
}

void audit_index_freep(struct audit_index **ix) {
        audit_index_free(*ix);
}

int index_fault(const struct audit_index *ix, struct err *err) {
        int code = sqlite3_errcode(ix->db);

        if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
                return err_set(err, EBADMSG, "%s is damaged (%s); remove it, it is built anew", ix->path,
                               sqlite3_errmsg(ix->db));
        if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
                return err_set(err, EBUSY, "%s is in use by another process", ix->path);
        return err_set(err, code == SQLITE_NOMEM ? ENOMEM : EIO, "%s: %s", ix->path, sqlite3_errmsg(ix->db));
}

int index_prepare(const struct audit_index *ix, const char *sql, sqlite3_stmt **ret, struct err *err) {
        if (sqlite3_prepare_v2(ix->db, sql, -1, ret, NULL) != SQLITE_OK)
                return index_fault(ix, err);

        return 0;
}

void index_finish(sqlite3_stmt **statement) {
        sqlite3_finalize(*statement);
        *statement = NULL;
}

static int index_execute(const struct audit_index *ix, const char *sql, struct err *err) {
        if (sqlite3_exec(ix->db, sql, NULL, NULL, NULL) != SQLITE_OK)
                return index_fault(ix, err);

        return 0;
}

/*
 * Opening.
 */
static int index_number(const struct audit_index *ix, const char *sql, int64_t *ret, struct err *err) {
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        int r;

        r = index_prepare(ix, sql, &statement, err);
        if (r < 0)
                return r;
        if (sqlite3_step(statement) != SQLITE_ROW)
                return index_fault(ix, err);
        *ret = sqlite3_column_int64(statement, 0);
        return 0;
}

static int index_make(struct audit_index *ix, struct err *err) {
        char version[64];
        int64_t found = 0;
        int r;

        r = index_execute(ix, "BEGIN IMMEDIATE", err);
        if (r < 0)
                return r;
        r = index_number(ix, "PRAGMA user_version", &found, err);
        if (r == 0 && found != 0 && found != INDEX_VERSION)
                r = err_set(err, EPROTO, "%s is of another version", ix->path);
        if (r == 0 && found == 0) {
                snprintf(version, sizeof version, "PRAGMA user_version = %d", INDEX_VERSION);
                r = index_execute(ix, schema, err);
                if (r == 0)
                        r = index_execute(ix, version, err);
        }
        if (r == 0)
                return index_execute(ix, "COMMIT", err);
        (void)index_execute(ix, "ROLLBACK", NULL); /* the first error is the one to tell */
        return r;
}

static int index_statements(struct audit_index *ix, struct err *err) {
        static const char record[] = "INSERT OR REPLACE INTO records (run, seq, at_us, verdict, kind, host, path, rule,"
                                     " credentials, inode, at, length) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
                                     " ?11, ?12)";
        static const char host[] =
            "INSERT INTO hosts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)"
            " ON CONFLICT (run, name, port) DO UPDATE SET allowed = allowed + ?4, refused = refused + ?5,"
            " bytes_in = bytes_in + ?6, bytes_out = bytes_out + ?7, last_us = ?8, rule = coalesce(?9, rule),"
            " reason = coalesce(?10, reason)";
        static const char name[] = "INSERT INTO names VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (run, what, name)"
                                   " DO UPDATE SET allowed = allowed + ?4, refused = refused + ?5, last_us = ?6";
        static const char run[] =
            "UPDATE runs SET run = ?2, first_us = ?3, last_us = ?4, records = ?5, allowed = ?6, refused = ?7,"
            " bytes_in = ?8, bytes_out = ?9, mode = ?10, workspace = ?11, command = ?12, status = ?13, closed = ?14,"
            " broken = ?15, inode = ?16, at = ?17, seq = ?18 WHERE id = ?1";
        const struct {
                const char *sql;
                sqlite3_stmt **statement;
        } all[] = {
                { record, &ix->add_record }, { host, &ix->add_host }, { name, &ix->add_name }, { run, &ix->set_run }
        };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                int r = index_prepare(ix, all[i].sql, all[i].statement, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int index_open_once(struct audit_index **ret, const char *path, struct err *err) {
        cleanup(audit_index_freep) struct audit_index *ix = calloc(1, sizeof *ix);
        cleanup(close_fd) int fd = -1;
        int r;

        if (!ix || !(ix->path = str_format("%s", path)))
                return err_memory(err);
        for (size_t i = 0; i < sizeof ix->texts / sizeof *ix->texts; i++)
                ix->texts[i] = BUF(AUDIT_LINE_MAX);

        r = path_open_append(path, 0600, &fd, err); /* ours, no link, closed to others: before SQLite sees it */
        if (r < 0)
                return r;
        if (sqlite3_open_v2(path, &ix->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL) !=
            SQLITE_OK) {
                if (ix->db)
                        return index_fault(ix, err);
                return err_memory(err);
        }
        sqlite3_busy_timeout(ix->db, WAIT_MS);

        r = index_execute(ix,
                          "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;"
                          " PRAGMA wal_autocheckpoint = 2000; PRAGMA case_sensitive_like = ON",
                          err);
        if (r < 0)
                return r;
        r = index_make(ix, err);
        if (r < 0)
                return r;
        r = index_statements(ix, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&ix);
        return 0;
}

static void index_remove(const char *path) {
        static const char *const endings[] = { "", "-wal", "-shm", "-journal" };

        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
                cleanup(free_ptr) char *name = str_format("%s%s", path, endings[i]);
                if (name)
                        unlink(name);
        }
}

int audit_index_open(struct audit_index **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *path = NULL;
        int r;

        r = dirs_state(&directory);
        if (r < 0)
                return err_set(err, -r, "there is no home directory to keep an index of the audit logs in");
        path = path_join(directory, "index.db");
        if (!path)
                return err_memory(err);
        r = path_make_private_dir(directory, err);
        if (r < 0)
                return r;

        r = index_open_once(ret, path, err);
        if (r != -EBADMSG && r != -EPROTO)
                return r;
        err_clear(err);
        index_remove(path);
        return index_open_once(ret, path, err);
}

/*
 * Which logs there are.
 */
static uint64_t log_bytes(const char *path) {
        cleanup(audit_names_done) audit_names files = { 0 };
        uint64_t bytes = 0;

        if (audit_files(path, &files, NULL) < 0)
                return 0;
        for (size_t i = 0; i < files.n; i++) {
                struct stat st;
                if (stat(files.p[i], &st) == 0)
                        bytes += (uint64_t)st.st_size;
        }
        return bytes;
}

/* Whether a log has grown beyond what the index has of it; true as well for one that is new. */
static bool log_has_more(const struct audit_index *ix, const char *path) {
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        struct stat st;

        if (index_prepare(ix, "SELECT inode, at FROM runs WHERE path = ?1", &statement, NULL) < 0)
                return true;
        sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) != SQLITE_ROW || stat(path, &st) < 0)
                return true;
        return (uint64_t)sqlite3_column_int64(statement, 0) != st.st_ino ||
               sqlite3_column_int64(statement, 1) != st.st_size;
}

static int work_add(struct audit_index *ix, const char *path, struct err *err) {
        if (!log_has_more(ix, path))
                return 0;
        for (size_t i = 0; i < ix->work.n; i++)
                if (strcmp(ix->work.p[i].path, path) == 0)
                        return 0;

        struct index_work work = { .path = str_format("%s", path), .bytes = log_bytes(path) };
        if (!work.path || vec_push(&ix->work, work) < 0) {
                free(work.path);
                return err_memory(err);
        }
        return 0;
}

/* Rows of logs that are not there any more. */
static int index_forget(struct audit_index *ix, struct err *err) {
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        VEC(int64_t) gone = { 0 };
        int r;

        r = index_prepare(ix, "SELECT id, path FROM runs", &statement, err);
        while (r == 0 && sqlite3_step(statement) == SQLITE_ROW) {
                const char *path = (const char *)sqlite3_column_text(statement, 1);
                if (path && access(path, F_OK) < 0 && errno == ENOENT &&
                    vec_push(&gone, sqlite3_column_int64(statement, 0)) < 0)
                        r = err_memory(err);
        }
        index_finish(&statement);

        for (size_t i = 0; i < gone.n && r == 0; i++) {
                char sql[256];
                snprintf(sql, sizeof sql,
                         "BEGIN IMMEDIATE; DELETE FROM records WHERE run = %1$jd; DELETE FROM hosts WHERE run = %1$jd;"
                         " DELETE FROM names WHERE run = %1$jd; DELETE FROM runs WHERE id = %1$jd; COMMIT",
                         (intmax_t)gone.p[i]);
                r = index_execute(ix, sql, err);
        }
        vec_done(&gone);
        return r;
}

/* Logs that were named once and are elsewhere: those of services, and of --audit. */
static int index_look_elsewhere(struct audit_index *ix, struct err *err) {
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        cleanup(free_ptr) char *directory = NULL;
        int r;

        r = audit_directory(&directory, err);
        if (r < 0)
                return r;
        r = index_prepare(ix, "SELECT path FROM runs", &statement, err);
        while (r == 0 && sqlite3_step(statement) == SQLITE_ROW) {
                const char *path = (const char *)sqlite3_column_text(statement, 0);
                if (path && !path_is_within(path, directory))
                        r = work_add(ix, path, err);
        }
        return r;
}

int audit_index_look(struct audit_index *ix, char *const *more, struct err *err) {
        cleanup(audit_names_done) audit_names names = { 0 };
        int r;

        r = index_forget(ix, err);
        if (r < 0)
                return r;
        r = index_look_elsewhere(ix, err);
        if (r < 0)
                return r;
        r = audit_runs(&names, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < names.n; i++) {
                r = work_add(ix, names.p[i], err);
                if (r < 0)
                        return r;
        }
        for (char *const *path = more; path && *path; path++) {
                r = work_add(ix, *path, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

void audit_index_progress(const struct audit_index *ix, uint64_t *ret_read, uint64_t *ret_all) {
        *ret_read = *ret_all = 0;
        for (size_t i = 0; i < ix->work.n; i++) {
                *ret_read += ix->work.p[i].read;
                *ret_all += ix->work.p[i].bytes;
        }
}

int audit_index_update(struct audit_index *ix, struct err *err) {
        int r;

        r = audit_index_look(ix, NULL, err);
        if (r < 0)
                return r;
        do
                r = audit_index_step(ix, STEP_ALL, err);
        while (r > 0);
        return r;
}
