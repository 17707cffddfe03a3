/* SPDX-License-Identifier: Apache-2.0 */
/* Searches. A hit is a place; its line is read from the log and must match the index. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "store/audit_index_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_MAX_LOGS = 16 };

/* Logs that were opened for this search. */
struct open_log {
        int64_t run;
        uint64_t inode;
        char *path;
        int fd;
};
struct open_logs {
        struct open_log logs[OPEN_MAX_LOGS];
        size_t next;
        struct buf line;
};

static void open_log_done(struct open_log *log) {
        close_fd(&log->fd);
        free(log->path);
        *log = (struct open_log){ .fd = -1 };
}

static void open_logs_done(struct open_logs *logs) {
        for (size_t i = 0; i < OPEN_MAX_LOGS; i++)
                open_log_done(&logs->logs[i]);
        buf_done(&logs->line);
}

/* The file of the run with this inode, whatever it is called now; NULL when it is gone. */
static struct open_log *open_log_of(struct open_logs *logs, int64_t run, uint64_t inode, const char *path) {
        cleanup(audit_names_done) audit_names files = { 0 };

        for (size_t i = 0; i < OPEN_MAX_LOGS; i++)
                if (logs->logs[i].fd >= 0 && logs->logs[i].run == run && logs->logs[i].inode == inode)
                        return &logs->logs[i];
        if (audit_files(path, &files, NULL) < 0)
                return NULL;

        for (size_t i = files.n; i-- > 0;) {
                cleanup(close_fd) int fd = open(files.p[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                struct stat st;

                if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != inode)
                        continue;
                struct open_log *log = &logs->logs[logs->next++ % OPEN_MAX_LOGS];
                open_log_done(log);
                log->run = run;
                log->inode = inode;
                log->path = take_ptr(&files.p[i]);
                log->fd = take_fd(&fd);
                return log;
        }
        return NULL;
}

static bool read_line(struct open_logs *logs, const struct open_log *log, uint64_t at, size_t length, uint64_t seq) {
        struct audit_record record;

        buf_clear(&logs->line);
        if (length > AUDIT_LINE_MAX || buf_reserve(&logs->line, length) < 0)
                return false;
        if (pread(log->fd, logs->line.p, length, (off_t)at) != (ssize_t)length)
                return false;
        logs->line.n = length;
        return audit_line_parse(buf_str(&logs->line), &record, NULL) == 0 && record.seq == seq;
}

/*
 * Conditions. Each adds its SQL and its value; all of them are joined by AND.
 */
struct conditions {
        struct buf sql;
        VEC(char *) texts; /* bound in this order */
        int status;
};

static void conditions_done(struct conditions *conditions) {
        buf_done(&conditions->sql);
        for (size_t i = 0; i < conditions->texts.n; i++)
                free(conditions->texts.p[i]);
        vec_done(&conditions->texts);
}

/* Each '#' of the text stands for the value, which is taken. */
static void search_condition(struct conditions *conditions, const char *form, char *value) {
        if (!value || conditions->status < 0 || vec_push(&conditions->texts, value) < 0) {
                free(value);
                if (conditions->status >= 0)
                        conditions->status = -ENOMEM;
                return;
        }
        conditions->status = buf_add(&conditions->sql, conditions->sql.n ? " AND " : " WHERE ");
        if (conditions->status < 0)
                return;
        for (const char *at = form; *at && conditions->status == 0; at++)
                conditions->status = *at == '#' ? buf_printf(&conditions->sql, "?%zu", conditions->texts.n)
                                                : buf_add_char(&conditions->sql, *at);
}

/* A '*' stands for anything; what else GLOB would understand stands for itself. */
static char *glob_of(const char *text) {
        cleanup(buf_done) struct buf out = BUF(65536);

        for (const char *at = text; *at; at++) {
                int r = *at == '[' || *at == '?' ? buf_printf(&out, "[%c]", *at) : buf_add_char(&out, *at);
                if (r < 0)
                        return NULL;
        }
        return str_dup(buf_str(&out));
}

static void condition_name(struct conditions *conditions, const char *text, const char *exact, const char *glob) {
        if (!text || !*text)
                return;
        if (strchr(text, '*'))
                search_condition(conditions, glob, glob_of(text));
        else
                search_condition(conditions, exact, str_format("%s", text));
}

static void condition_number(struct conditions *conditions, const char *format, uint64_t number) {
        if (number)
                search_condition(conditions, format, str_format("%ju", (uintmax_t)number));
}

static void conditions_of(struct conditions *conditions, const struct audit_query *query) {
        condition_name(conditions, query->host, "host = #", "host GLOB #");
        condition_name(conditions, query->rule, "rule = #", "rule GLOB #");
        condition_name(conditions, query->kind, "kind = #", "kind GLOB #");
        if (query->credential && *query->credential) {
                if (strchr(query->credential, '*'))
                        search_condition(conditions, "credentials GLOB '*\"' || # || '\"*'",
                                         glob_of(query->credential));
                else
                        search_condition(conditions, "instr(credentials, '\"' || # || '\"')",
                                         str_format("%s", query->credential));
        }
        if (query->path && *query->path)
                search_condition(conditions, "instr(records.path, #)", str_format("%s", query->path));
        if (query->run && *query->run)
                search_condition(conditions, "substr(runs.run, 1, length(#)) = #", str_format("%s", query->run));
        if (query->text && *query->text)
                search_condition(
                    conditions,
                    "(instr(host, #) OR instr(records.path, #) OR instr(rule, #) OR instr(credentials, #) OR "
                    "instr(runs.command, #))",
                    str_format("%s", query->text));
        condition_number(conditions, "at_us >= CAST(# AS INTEGER)", query->since_us);
        condition_number(conditions, "at_us < CAST(# AS INTEGER)", query->until_us);
        condition_number(conditions, "verdict = CAST(# AS INTEGER)", (uint64_t)query->verdict);

        if (query->after_us && conditions->status == 0) { /* numbers of our own: no value has to be bound */
                const char *joint = conditions->sql.n ? " AND" : " WHERE";

                conditions->status =
                    buf_printf(&conditions->sql, "%s (at_us, records.run, records.seq) %s (%ju, %ju, %ju)", joint,
                               query->newest_first ? "<" : ">", (uintmax_t)query->after_us, (uintmax_t)query->after_run,
                               (uintmax_t)query->after_seq);
        }
}

static int bind_all(const struct audit_index *ix, sqlite3_stmt *statement, const struct conditions *conditions,
                    struct err *err) {
        for (size_t i = 0; i < conditions->texts.n; i++)
                if (sqlite3_bind_text(statement, (int)i + 1, conditions->texts.p[i], -1, SQLITE_STATIC) != SQLITE_OK)
                        return index_fault(ix, err);
        return 0;
}

static int search_prepare(const struct audit_index *ix, const struct audit_query *query, struct conditions *conditions,
                          sqlite3_stmt **ret, struct err *err) {
        cleanup(buf_done) struct buf sql = BUF(65536);
        const char *direction = query->newest_first ? "DESC" : "ASC";
        int r;

        conditions_of(conditions, query);
        if (conditions->status < 0)
                return err_set(err, -conditions->status, "the search is too long");
        r = buf_printf(&sql,
                       "SELECT at_us, records.run, records.seq, records.inode, records.at, length, runs.path, runs.run"
                       " FROM records JOIN runs ON runs.id = records.run%.*s ORDER BY at_us %s, records.run %s,"
                       " records.seq %s",
                       STR_FMT(buf_str(&conditions->sql)), direction, direction, direction);
        if (r == 0 && query->limit)
                r = buf_printf(&sql, " LIMIT %u", query->limit);
        if (r < 0 || !buf_text(&sql))
                return err_memory(err);

        r = index_prepare(ix, buf_text(&sql), ret, err);
        if (r < 0)
                return r;

        return bind_all(ix, *ret, conditions, err);
}

int audit_index_search(struct audit_index *ix, const struct audit_query *query, audit_on_hit *on_hit, void *arg,
                       struct err *err) {
        cleanup(conditions_done) struct conditions c = { .sql = BUF(32768) };
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        cleanup(open_logs_done) struct open_logs logs = { .line = BUF(AUDIT_LINE_MAX) };
        int r, step;

        for (size_t i = 0; i < OPEN_MAX_LOGS; i++)
                logs.logs[i].fd = -1;
        r = search_prepare(ix, query, &c, &statement, err);
        if (r < 0)
                return r;

        while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
                struct audit_hit hit = { .at_us = (uint64_t)sqlite3_column_int64(statement, 0),
                                         .run = (uint64_t)sqlite3_column_int64(statement, 1),
                                         .seq = (uint64_t)sqlite3_column_int64(statement, 2),
                                         .run_id = (const char *)sqlite3_column_text(statement, 7) };
                const char *path = (const char *)sqlite3_column_text(statement, 6);
                struct open_log *log =
                    path ? open_log_of(&logs, (int64_t)hit.run, (uint64_t)sqlite3_column_int64(statement, 3), path)
                         : NULL;
                if (!log || !read_line(&logs, log, (uint64_t)sqlite3_column_int64(statement, 4),
                                       (size_t)sqlite3_column_int64(statement, 5), hit.seq))
                        continue;
                hit.path = log->path;
                hit.line = buf_str(&logs.line);
                r = on_hit(arg, &hit);
                if (r < 0)
                        return r;
        }
        if (step != SQLITE_DONE)
                return index_fault(ix, err);

        return 0;
}

/*
 * Sums.
 */
static const struct {
        const char *select, *group;
} sums_sql[] = {
        [SUMS_HOSTS] = { "SELECT name, port, sum(hosts.allowed), sum(hosts.refused), sum(hosts.bytes_in),"
                         " sum(hosts.bytes_out), min(hosts.first_us), max(hosts.last_us), rule, reason"
                         " FROM hosts JOIN runs ON runs.id = hosts.run",
                         " GROUP BY name, port ORDER BY max(hosts.last_us) DESC" },
        [SUMS_RULES] = { "SELECT name, 0, sum(names.allowed), sum(names.refused), 0, 0, min(names.first_us),"
                         " max(names.last_us) FROM names JOIN runs ON runs.id = names.run",
                         " GROUP BY name ORDER BY max(names.last_us) DESC" },
        [SUMS_RUNS] = { "SELECT runs.run, 0, runs.allowed, runs.refused, runs.bytes_in, runs.bytes_out, runs.first_us,"
                        " runs.last_us, runs.path, runs.workspace, runs.command, runs.mode, runs.status, runs.broken,"
                        " runs.records, runs.id, runs.closed FROM runs",
                        " ORDER BY runs.first_us DESC" },
};

static const char *column_text(sqlite3_stmt *statement, int place) {
        const char *text = (const char *)sqlite3_column_text(statement, place);
        return text_or(text, "");
}

static struct audit_sum sum_of(sqlite3_stmt *statement, enum audit_sums what) {
        struct audit_sum sum = { .name = column_text(statement, 0) };
        uint64_t *const numbers[] = { &sum.port,      &sum.allowed,  &sum.refused, &sum.bytes_in,
                                      &sum.bytes_out, &sum.first_us, &sum.last_us };

        for (int i = 0; i < 7; i++)
                *numbers[i] = (uint64_t)sqlite3_column_int64(statement, i + 1);
        if (what == SUMS_HOSTS) {
                sum.rule = column_text(statement, 8);
                sum.reason = column_text(statement, 9);
        }
        if (what == SUMS_RUNS) {
                const char **const texts[] = { &sum.path, &sum.workspace, &sum.command,
                                               &sum.mode, &sum.status,    &sum.broken };
                for (int i = 0; i < 6; i++)
                        *texts[i] = column_text(statement, 8 + i);
                sum.records = (uint64_t)sqlite3_column_int64(statement, 14);
                sum.run = (uint64_t)sqlite3_column_int64(statement, 15);
                sum.closed = sqlite3_column_int(statement, 16);
        }
        return sum;
}

static void sums_conditions(struct conditions *conditions, enum audit_sums what, const char *run, const char *text) {
        if (what == SUMS_RULES || what == SUMS_CREDENTIALS)
                search_condition(conditions, "what = CAST(# AS INTEGER)", str_format("%d", (int)what));
        if (run && *run)
                search_condition(conditions, "substr(runs.run, 1, length(#)) = #", str_format("%s", run));
        if (text && *text)
                search_condition(conditions,
                                 what == SUMS_RUNS
                                     ? "(instr(runs.run, #) OR instr(runs.command, #) OR instr(runs.workspace, #))"
                                     : "instr(name, #)",
                                 str_format("%s", text));
}

int audit_index_sums(struct audit_index *ix, enum audit_sums what, const char *run, const char *text, unsigned limit,
                     audit_on_sum *on_sum, void *arg, struct err *err) {
        cleanup(conditions_done) struct conditions c = { .sql = BUF(32768) };
        cleanup(index_finish) sqlite3_stmt *statement = NULL;
        cleanup(free_ptr) char *sql = NULL;
        enum audit_sums form = what == SUMS_CREDENTIALS ? SUMS_RULES : what;
        int r, step;

        sums_conditions(&c, what, run, text);
        if (c.status < 0)
                return err_set(err, -c.status, "the search is too long");
        const char *where = c.sql.n ? buf_text(&c.sql) : "";
        sql = where ? str_format("%s%s%s LIMIT %u", sums_sql[form].select, where, sums_sql[form].group, limit) : NULL;
        if (!sql)
                return err_memory(err);
        r = index_prepare(ix, sql, &statement, err);
        if (r < 0)
                return r;
        r = bind_all(ix, statement, &c, err);
        if (r < 0)
                return r;

        while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
                const struct audit_sum sum = sum_of(statement, what);
                r = on_sum(arg, &sum);
                if (r < 0)
                        return r;
        }
        if (step != SQLITE_DONE)
                return index_fault(ix, err);

        return 0;
}
