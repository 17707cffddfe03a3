/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of the state. SQLite does the locking between processes and the recovery after a crash; this file holds the
 * only SQL there is. The schema's version is user_version: migrations[] takes a database from each version to the next,
 * in one transaction each. A database that is newer than this program is left alone. A damaged one is never repaired or
 * replaced by itself: a person moves it away, and the rules come back from the file beside it.
 */
#include "store/state.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

enum { WAIT_MS = 5000, RULES_MAX = 100000, EXPORT_MAX = 4 << 20 };

struct state {
        sqlite3 *db;
        char *path;
};

static const char *const migrations[] = {
        /* 1 */
        "CREATE TABLE sandboxes (id TEXT PRIMARY KEY, workspace TEXT NOT NULL, command TEXT NOT NULL, at_us INTEGER "
        "NOT "
        "NULL);"
        "CREATE TABLE rules (id INTEGER PRIMARY KEY, list TEXT NOT NULL CHECK (list IN ('allow', 'deny')),"
        " pattern TEXT NOT NULL, workspace TEXT NOT NULL DEFAULT '', at_us INTEGER NOT NULL,"
        " UNIQUE (pattern, workspace));"
        "CREATE TABLE decisions (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, sandbox TEXT NOT NULL,"
        " host TEXT NOT NULL, port INTEGER NOT NULL, answer TEXT NOT NULL, scope TEXT NOT NULL, by TEXT NOT NULL);"
        "CREATE INDEX decisions_by_sandbox ON decisions (sandbox);",
        /* 2 */
        "CREATE TABLE commands (id INTEGER PRIMARY KEY, answer TEXT NOT NULL CHECK (answer IN ('allow', 'deny')),"
        " command TEXT NOT NULL, rule TEXT NOT NULL, workspace TEXT NOT NULL DEFAULT '', at_us INTEGER NOT NULL,"
        " UNIQUE (command, rule, workspace));"
        "ALTER TABLE decisions ADD COLUMN kind TEXT NOT NULL DEFAULT 'host';",
};
enum { VERSION = sizeof migrations / sizeof *migrations };

void state_close(struct state *state) {
        if (!state)
                return;
        sqlite3_close(state->db);
        free(state->path);
        free(state);
}

void state_closep(struct state **state) {
        state_close(*state);
}

static int state_fault(const struct state *state, struct err *err) {
        int code = sqlite3_errcode(state->db);
        if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
                return err_set(err, EBADMSG,
                               "%s is damaged (%s). Move it away (mv %s %s.broken) and try again: the rules that you "
                               "approved are kept beside it and are taken over",
                               state->path, sqlite3_errmsg(state->db), state->path, state->path);

        if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
                return err_set(err, EBUSY, "%s is in use by another process", state->path);

        return err_set(err, code == SQLITE_NOMEM ? ENOMEM : EIO, "%s: %s", state->path, sqlite3_errmsg(state->db));
}

static int state_execute(struct state *state, const char *sql, struct err *err) {
        if (sqlite3_exec(state->db, sql, NULL, NULL, NULL) != SQLITE_OK)
                return state_fault(state, err);

        return 0;
}

static void state_finish(sqlite3_stmt **q) {
        sqlite3_finalize(*q);
}

/* Texts by their places; NULL stands for "". */
static int state_prepare(struct state *state, const char *sql, const char *const *texts, int n, sqlite3_stmt **ret,
                         struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        if (sqlite3_prepare_v2(state->db, sql, -1, &q, NULL) != SQLITE_OK)
                return state_fault(state, err);

        for (int i = 0; i < n; i++)
                if (sqlite3_bind_text(q, i + 1, text_or(texts[i], ""), -1, SQLITE_TRANSIENT) != SQLITE_OK)
                        return state_fault(state, err);

        *ret = take_ptr(&q);
        return 0;
}

static const char *state_column(sqlite3_stmt *q, int i) {
        const char *text = (const char *)sqlite3_column_text(q, i);
        return text_or(text, "");
}

static int state_run(struct state *state, const char *sql, const char *const *texts, int n, struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        int r = state_prepare(state, sql, texts, n, &q, err);
        if (r < 0)
                return r;

        if (sqlite3_step(q) != SQLITE_DONE)
                return state_fault(state, err);

        return 0;
}

static int state_number(struct state *state, const char *sql, int *ret, struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        int r = state_prepare(state, sql, NULL, 0, &q, err);
        if (r == 0 && sqlite3_step(q) != SQLITE_ROW)
                r = state_fault(state, err);
        if (r == 0)
                *ret = sqlite3_column_int(q, 0);
        return r;
}

/*
 * Opening.
 */
static int add_row(struct state *state, bool deny, const char *workspace, const char *pattern, uint64_t at_us,
                   struct err *err) {
        char at[24];

        snprintf(at, sizeof at, "%ju", (uintmax_t)at_us);
        const char *const texts[] = { deny ? "deny" : "allow", pattern, workspace, at };

        return state_run(state,
                         "INSERT INTO rules (list, pattern, workspace, at_us) VALUES (?1, ?2, ?3, CAST(?4 AS INTEGER))"
                         " ON CONFLICT (pattern, workspace) DO UPDATE SET list = excluded.list, at_us = excluded.at_us",
                         texts, 4, err);
}

static int take_over(struct state *state, struct err *err) {
        cleanup(approved_done) struct approved rules = { 0 };
        cleanup(free_ptr) char *path = NULL;
        int r = 0;

        if (approved_path(&path) >= 0)
                r = approved_read(path, &rules, err);

        for (size_t i = 0; r == 0 && i < rules.rules.n; i++) {
                const struct approved_rule *rule = &rules.rules.p[i];
                uint64_t at_us;

                if (!clock_parse_text(str_of(rule->day), &at_us))
                        at_us = clock_wall_us();

                r = add_row(state, rule->deny, rule->workspace, rule->pattern, at_us, err);
        }

        return r;
}

static int state_migrate(struct state *state, struct err *err) {
        int version = 0;
        char set[64];
        int r = state_execute(state, "BEGIN IMMEDIATE", err);
        if (r == 0)
                r = state_number(state, "PRAGMA user_version", &version, err);

        if (r == 0 && version > VERSION)
                r = err_set(
                    err, EPROTO,
                    "%s was written by a newer Bailey (version %d, this one knows %d); update it, or move it away",
                    state->path, version, VERSION);

        bool fresh = version == 0;
        for (; r == 0 && version < VERSION; version++)
                r = state_execute(state, migrations[version], err);

        snprintf(set, sizeof set, "PRAGMA user_version = %d", version);
        if (r == 0)
                r = state_execute(state, set, err);
        if (r == 0 && fresh)
                r = take_over(state, err);
        if (r == 0)
                return state_execute(state, "COMMIT", err);

        (void)state_execute(state, "ROLLBACK", NULL); /* the first error is the one to tell */
        return r;
}

int state_open(struct state **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(state_closep) struct state *s = calloc(1, sizeof *s);
        int r = dirs_state(&directory);
        if (r == -ENOENT)
                return err_set(err, ENOENT, "there is no home directory to remember anything in");
        if (r < 0 || !s || !(s->path = path_join(directory, "state.db")))
                return err_memory(err);

        r = path_make_private_dir(directory, err);
        if (r == 0)
                r = path_make_private_file(s->path, err);
        if (r < 0)
                return r;

        if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                            NULL) != SQLITE_OK) {
                if (s->db)
                        return state_fault(s, err);
                return err_memory(err);
        }

        sqlite3_busy_timeout(s->db, WAIT_MS);
        r = state_migrate(s, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&s);
        return 0;
}

/*
 * Rules and decisions.
 */
int state_rules(struct state *state, struct approved *ret, struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        int r = state_prepare(state, "SELECT list, pattern, workspace, at_us FROM rules ORDER BY id", NULL, 0, &q, err),
            step;
        while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                char day[CLOCK_TEXT_MAX];

                if (step != SQLITE_ROW)
                        return state_fault(state, err);

                const char *list = (const char *)sqlite3_column_text(q, 0);
                const char *pattern = (const char *)sqlite3_column_text(q, 1);
                const char *workspace = (const char *)sqlite3_column_text(q, 2);
                clock_text((uint64_t)sqlite3_column_int64(q, 3), day);
                day[10] = '\0';

                if (!list || !pattern || !workspace || ret->rules.n >= RULES_MAX ||
                    approved_add(ret, strcmp(list, "deny") == 0, day, workspace[0] ? workspace : NULL, pattern) < 0)
                        r = err_memory(err);
        }

        return r;
}

/* The file that launches read. */
static int state_export(struct state *state, struct err *err) {
        cleanup(approved_done) struct approved rules = { 0 };
        cleanup(buf_done) struct buf text = BUF(EXPORT_MAX);
        cleanup(free_ptr) char *path = NULL;
        int r = state_rules(state, &rules, err);
        if (r == 0 && (approved_path(&path) < 0 || approved_format(&rules, &text) < 0))
                r = err_set(err, ENOMEM, "the approved rules cannot be written: out of memory, or too many");
        if (r < 0)
                return r;

        return path_replace_file(path, buf_str(&text), 0600, err);
}

int state_add_rule(struct state *state, bool deny, const char *workspace, const char *pattern, struct err *err) {
        int r = add_row(state, deny, workspace, pattern, clock_wall_us(), err);
        if (r < 0)
                return r;

        return state_export(state, err);
}

static int state_forget(struct state *state, const char *sql, const char *workspace, const char *pattern,
                        struct err *err) {
        const char *const texts[] = { pattern, workspace };
        int r = state_run(state, sql, texts, 2, err);
        int removed = sqlite3_changes(state->db);

        if (r == 0)
                r = state_export(state, err);
        if (r < 0)
                return r;

        return removed;
}

int state_forget_rule(struct state *state, const char *workspace, const char *pattern, struct err *err) {
        return state_forget(state, "DELETE FROM rules WHERE pattern = ?1 AND workspace IN ('', ?2)", workspace, pattern,
                            err);
}

int state_forget_own_rule(struct state *state, const char *workspace, const char *pattern, struct err *err) {
        return state_forget(state, "DELETE FROM rules WHERE pattern = ?1 AND workspace = ?2", workspace, pattern, err);
}

int state_forget_workspace(struct state *state, const char *workspace, struct err *err) {
        const char *const texts[] = { workspace };
        int r = state_run(state, "DELETE FROM rules WHERE workspace = ?1", texts, 1, err);
        bool changed = r == 0 && sqlite3_changes(state->db) > 0;

        if (r == 0)
                r = state_run(state, "DELETE FROM commands WHERE workspace = ?1", texts, 1, err);
        if (r < 0 || !changed)
                return r;

        return state_export(state, err);
}

/*
 * Commands.
 */
int state_add_command(struct state *state, bool deny, const char *workspace, const char *rule, const char *command,
                      struct err *err) {
        char at[24];

        snprintf(at, sizeof at, "%ju", (uintmax_t)clock_wall_us());
        const char *const texts[] = { deny ? "deny" : "allow", command, rule, workspace, at };

        return state_run(state,
                         "INSERT INTO commands (answer, command, rule, workspace, at_us) VALUES"
                         " (?1, ?2, ?3, ?4, CAST(?5 AS INTEGER)) ON CONFLICT (command, rule, workspace)"
                         " DO UPDATE SET answer = excluded.answer, at_us = excluded.at_us",
                         texts, 5, err);
}

int state_command(struct state *state, const char *workspace, const char *rule, const char *command,
                  enum state_answer *ret, struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        const char *const texts[] = { command, rule, workspace };
        int r = state_prepare(
            state,
            "SELECT answer FROM commands WHERE command = ?1 AND rule IN (?2, '*') AND workspace IN ('', ?3)"
            " ORDER BY answer DESC LIMIT 1",
            texts, 3, &q, err);
        int step = r < 0 ? SQLITE_ERROR : sqlite3_step(q);
        if (r == 0 && step != SQLITE_ROW && step != SQLITE_DONE)
                r = state_fault(state, err);

        if (r == 0) {
                if (step == SQLITE_DONE)
                        *ret = STATE_NO_ANSWER;
                else if (strcmp(state_column(q, 0), "allow") == 0)
                        *ret = STATE_ALLOWED;
                else
                        *ret = STATE_DENIED;
        }

        return r;
}

int state_forget_command(struct state *state, const char *workspace, const char *command, struct err *err) {
        const char *const texts[] = { command, workspace };
        int r = state_run(state, "DELETE FROM commands WHERE command = ?1 AND workspace IN ('', ?2)", texts, 2, err);
        if (r < 0)
                return r;

        return sqlite3_changes(state->db);
}

int state_add_decision(struct state *state, const struct state_decision *state_decision, struct err *err) {
        char at[24], port[8];

        snprintf(at, sizeof at, "%ju", (uintmax_t)clock_wall_us());
        snprintf(port, sizeof port, "%u", state_decision->port);
        const char *const sandbox[] = { state_decision->sandbox, state_decision->workspace, state_decision->command,
                                        at };
        const char *const decision[] = { at,
                                         state_decision->sandbox,
                                         state_decision->host,
                                         port,
                                         state_decision->answer,
                                         state_decision->scope,
                                         state_decision->by,
                                         text_or(state_decision->kind, "host") };
        int r = 0;

        if (state_decision->sandbox)
                r = state_run(state, "INSERT OR IGNORE INTO sandboxes VALUES (?1, ?2, ?3, CAST(?4 AS INTEGER))",
                              sandbox, 4, err);

        if (r < 0)
                return r;

        return state_run(state,
                         "INSERT INTO decisions (at_us, sandbox, host, port, answer, scope, by, kind) VALUES"
                         " (CAST(?1 AS INTEGER), ?2, ?3, CAST(?4 AS INTEGER), ?5, ?6, ?7, ?8)",
                         decision, 8, err);
}

int state_decisions(struct state *state, unsigned max, state_on_decision *on, void *arg, struct err *err) {
        cleanup(state_finish) sqlite3_stmt *q = NULL;
        char limit[16];

        snprintf(limit, sizeof limit, "%u", max);
        const char *const texts[] = { limit };
        int r = state_prepare(
                state,
                "SELECT d.at_us, d.sandbox, coalesce(b.workspace, ''), coalesce(b.command, ''), d.host, d.port,"
                " d.answer, d.scope, d.by, d.kind FROM decisions d LEFT JOIN sandboxes b ON b.id = d.sandbox"
                " ORDER BY d.id DESC LIMIT CAST(?1 AS INTEGER)",
                texts, 1, &q, err),
            step;
        while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                if (step != SQLITE_ROW)
                        return state_fault(state, err);
                const struct state_decision decision = { .sandbox = state_column(q, 1),
                                                         .workspace = state_column(q, 2),
                                                         .command = state_column(q, 3),
                                                         .host = state_column(q, 4),
                                                         .port = (uint16_t)sqlite3_column_int(q, 5),
                                                         .answer = state_column(q, 6),
                                                         .scope = state_column(q, 7),
                                                         .by = state_column(q, 8),
                                                         .kind = state_column(q, 9) };
                r = on(arg, (uint64_t)sqlite3_column_int64(q, 0), &decision);
        }

        return r;
}
