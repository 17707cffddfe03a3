/* SPDX-License-Identifier: Apache-2.0 */
/* Taking lines into the index. */
#include "base/cleanup.h"
#include "store/audit_index_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_RUN, TEXT_MODE, TEXT_WORKSPACE, TEXT_COMMAND, TEXT_STATUS, RUN_TEXTS };
enum { IN_HOST, IN_PATH, IN_RULE, IN_CREDENTIALS, IN_DETAIL, IN_REASON };

/* A row of `runs` while it is worked on. */
struct run_row {
        int64_t id;
        uint64_t first_us, last_us, records, allowed, refused, bytes_in, bytes_out, inode, at, seq;
        bool closed;
        char *texts[RUN_TEXTS];
        struct err broken;
};

static void run_row_done(struct run_row *row) {
        for (size_t i = 0; i < RUN_TEXTS; i++)
                free(row->texts[i]);
}

static int set_text(char **field, struct str text) {
        char *copy = str_dup(text); /* NULL also for text with a NUL inside: then it stays as it was */

        if (!copy && errno == EINVAL)
                return 0;
        if (!copy)
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

static int row_load(struct audit_index *ix, const char *path, struct run_row *ret, struct err *err) {
        cleanup(index_finish) sqlite3_stmt *add = NULL, *get = NULL;
        int r;

        r = index_prepare(ix, "INSERT OR IGNORE INTO runs (path) VALUES (?1)", &add, err);
        if (r < 0)
                return r;
        sqlite3_bind_text(add, 1, path, -1, SQLITE_STATIC);
        if (sqlite3_step(add) != SQLITE_DONE)
                return index_fault(ix, err);

        r = index_prepare(
            ix,
            "SELECT id, first_us, last_us, records, allowed, refused, bytes_in, bytes_out, inode, at, seq,"
            " closed, run, mode, workspace, command, status FROM runs WHERE path = ?1",
            &get, err);
        if (r < 0)
                return r;
        sqlite3_bind_text(get, 1, path, -1, SQLITE_STATIC);
        if (sqlite3_step(get) != SQLITE_ROW)
                return index_fault(ix, err);

        uint64_t *const numbers[] = { &ret->first_us, &ret->last_us,   &ret->records, &ret->allowed, &ret->refused,
                                      &ret->bytes_in, &ret->bytes_out, &ret->inode,   &ret->at,      &ret->seq };
        ret->id = sqlite3_column_int64(get, 0);
        for (int i = 0; i < 10; i++)
                *numbers[i] = (uint64_t)sqlite3_column_int64(get, i + 1);
        ret->closed = sqlite3_column_int(get, 11);
        for (int i = 0; i < RUN_TEXTS; i++) {
                const char *text = (const char *)sqlite3_column_text(get, 12 + i);
                if (set_text(&ret->texts[i], str_of(text_or(text, ""))) < 0)
                        return err_memory(err);
        }
        return 0;
}

static int row_store(struct audit_index *ix, const struct run_row *row, struct err *err) {
        sqlite3_stmt *set = ix->set_run;
        const uint64_t before[] = { row->first_us, row->last_us,  row->records,  row->allowed,
                                    row->refused,  row->bytes_in, row->bytes_out };

        sqlite3_bind_int64(set, 1, row->id);
        sqlite3_bind_text(set, 2, row->texts[TEXT_RUN], -1, SQLITE_STATIC);
        for (int i = 0; i < 7; i++)
                sqlite3_bind_int64(set, 3 + i, (int64_t)before[i]);
        for (int i = TEXT_MODE; i < RUN_TEXTS; i++)
                sqlite3_bind_text(set, 9 + i, row->texts[i], -1, SQLITE_STATIC);
        sqlite3_bind_int(set, 14, row->closed);
        sqlite3_bind_text(set, 15, row->broken.code ? err_text(&row->broken) : "", -1, SQLITE_STATIC);
        sqlite3_bind_int64(set, 16, (int64_t)row->inode);
        sqlite3_bind_int64(set, 17, (int64_t)row->at);
        sqlite3_bind_int64(set, 18, (int64_t)row->seq);

        int step = sqlite3_step(set);
        sqlite3_reset(set);
        sqlite3_clear_bindings(set);
        if (step != SQLITE_DONE)
                return index_fault(ix, err);

        return 0;
}

/*
 * One record.
 */
static void bind_str(sqlite3_stmt *statement, int place, struct str text) {
        if (text.n && text.n <= INT32_MAX)
                sqlite3_bind_text(statement, place, text.p, (int)text.n, SQLITE_STATIC);
        else
                sqlite3_bind_null(statement, place);
}

static int run_statement(struct audit_index *ix, sqlite3_stmt *statement, struct err *err) {
        int step = sqlite3_step(statement);

        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        if (step != SQLITE_DONE)
                return index_fault(ix, err);

        return 0;
}

/* The text in its own buffer; a slice of the line where nothing is escaped. */
static struct str text_of(struct audit_index *ix, size_t which, struct str inside) {
        if (!inside.n || !memchr(inside.p, '\\', inside.n))
                return inside;
        buf_clear(&ix->texts[which]);
        if (audit_unescape(&ix->texts[which], inside) < 0)
                return inside;
        return buf_str(&ix->texts[which]);
}

struct place {
        uint64_t inode, at;
        size_t length;
};

static int add_record(struct audit_index *ix, const struct run_row *row, const struct audit_record *record,
                      const struct place *place, uint64_t at_us, const struct str texts[static 4], struct err *err) {
        sqlite3_stmt *add = ix->add_record;
        int verdict = record->allowed ? VERDICT_ALLOWED : VERDICT_REFUSED;

        sqlite3_bind_int64(add, 1, row->id);
        sqlite3_bind_int64(add, 2, (int64_t)record->seq);
        sqlite3_bind_int64(add, 3, (int64_t)at_us);
        sqlite3_bind_int(add, 4, record->has_allowed ? verdict : VERDICT_ANY);
        bind_str(add, 5, record->kind);
        for (int i = 0; i < 4; i++)
                bind_str(add, 6 + i, texts[i]);
        sqlite3_bind_int64(add, 10, (int64_t)place->inode);
        sqlite3_bind_int64(add, 11, (int64_t)place->at);
        sqlite3_bind_int64(add, 12, (int64_t)place->length);
        return run_statement(ix, add, err);
}

static int add_name(struct audit_index *ix, const struct run_row *row, enum audit_sums what, struct str name,
                    const struct audit_record *record, uint64_t at_us, struct err *err) {
        sqlite3_stmt *add = ix->add_name;
        int64_t times = (int64_t)(record->count ? record->count : 1);

        if (!name.n)
                return 0;
        sqlite3_bind_int64(add, 1, row->id);
        sqlite3_bind_int(add, 2, what);
        bind_str(add, 3, name);
        sqlite3_bind_int64(add, 4, record->allowed ? times : 0);
        sqlite3_bind_int64(add, 5, record->allowed ? 0 : times);
        sqlite3_bind_int64(add, 6, (int64_t)at_us);
        return run_statement(ix, add, err);
}

static int add_host(struct audit_index *ix, const struct run_row *row, struct str host,
                    const struct audit_record *record, uint64_t at_us, struct err *err) {
        sqlite3_stmt *add = ix->add_host;
        int64_t times = (int64_t)(record->count ? record->count : 1);

        if (!host.n)
                return 0;
        if (str_is(record->kind, "tunnel-close"))
                times = 0; /* it was counted when it began; this has the bytes */
        sqlite3_bind_int64(add, 1, row->id);
        bind_str(add, 2, host);
        sqlite3_bind_int64(add, 3, (int64_t)record->port);
        sqlite3_bind_int64(add, 4, record->allowed ? times : 0);
        sqlite3_bind_int64(add, 5, record->allowed ? 0 : times);
        sqlite3_bind_int64(add, 6, (int64_t)record->bytes_in);
        sqlite3_bind_int64(add, 7, (int64_t)record->bytes_out);
        sqlite3_bind_int64(add, 8, (int64_t)at_us);
        bind_str(add, 9, text_of(ix, IN_RULE, record->rule));
        bind_str(add, 10, text_of(ix, IN_REASON, record->reason));
        return run_statement(ix, add, err);
}

/* `"a","b"`: each is a whole JSON string, since the line was parsed. */
static int add_credentials(struct audit_index *ix, const struct run_row *row, const struct audit_record *record,
                           uint64_t at_us, struct err *err) {
        struct str rest = record->swapped;

        while (rest.n > 2) {
                size_t end = 1;
                int r;

                while (end < rest.n && rest.p[end] != '"')
                        end += rest.p[end] == '\\' ? 2 : 1;
                r = add_name(ix, row, SUMS_CREDENTIALS, text_of(ix, IN_REASON, str_n(rest.p + 1, end - 1)), record,
                             at_us, err);
                if (r < 0)
                        return r;
                rest = str_skip(rest, end + 2);
        }
        return 0;
}

/* "start: mode M, workspace W", "command: ...", "end: status N", "audit closed". */
static int take_note(struct run_row *row, struct str text) {
        static const struct str workspace = { ", workspace ", 12 };

        row->closed = str_is(text, AUDIT_STOPPED_TEXT);
        if (str_starts(text, STR("command: ")))
                return set_text(&row->texts[TEXT_COMMAND], str_skip(text, 9));
        if (str_starts(text, STR("end: status ")))
                return set_text(&row->texts[TEXT_STATUS], str_skip(text, 12));
        if (!str_starts(text, STR("start: ")))
                return 0;

        struct str rest = str_skip(text, 7);
        for (size_t i = 0; i + workspace.n <= rest.n; i++) {
                if (memcmp(rest.p + i, workspace.p, workspace.n) != 0)
                        continue;
                int r = set_text(&row->texts[TEXT_WORKSPACE], str_skip(rest, i + workspace.n));
                if (r < 0)
                        return r;
                rest = str_first(rest, i);
        }
        if (str_starts(rest, STR("mode ")))
                rest = str_skip(rest, 5);
        return set_text(&row->texts[TEXT_MODE], rest);
}

static void row_count(struct run_row *row, const struct audit_record *record, uint64_t at_us) {
        uint64_t times = record->count ? record->count : 1;

        if (row->records++ == 0)
                row->first_us = at_us;
        row->last_us = at_us;
        row->seq = record->seq;
        if (!record->has_allowed)
                return;
        row->closed = false;
        row->bytes_in += record->bytes_in;
        row->bytes_out += record->bytes_out;
        if (str_is(record->kind, "tunnel-close"))
                return;
        if (record->allowed)
                row->allowed += times;
        else
                row->refused += times;
}

static int take_record(struct audit_index *ix, struct run_row *row, const struct audit_record *record,
                       const struct place *place, struct err *err) {
        uint64_t at_us;
        int r;

        if (!audit_time(record->ts, &at_us))
                at_us = row->last_us;
        if (row->records == 0 && set_text(&row->texts[TEXT_RUN], record->run_id) < 0)
                return err_memory(err);
        row_count(row, record, at_us);

        const struct str texts[] = { text_of(ix, IN_HOST, record->domain.n ? record->domain : record->addr),
                                     text_of(ix, IN_PATH, record->path), text_of(ix, IN_RULE, record->rule),
                                     text_of(ix, IN_CREDENTIALS, record->swapped) };
        r = add_record(ix, row, record, place, at_us, texts, err);
        if (r < 0)
                return r;
        if (!record->has_allowed) {
                r = take_note(row, text_of(ix, IN_DETAIL, record->detail));
                if (r < 0)
                        return err_set(err, -r, "out of memory");

                return 0;
        }

        r = add_host(ix, row, texts[IN_HOST], record, at_us, err);
        if (r < 0)
                return r;
        r = add_name(ix, row, SUMS_RULES, texts[IN_RULE], record, at_us, err);
        if (r < 0)
                return r;
        return add_credentials(ix, row, record, at_us, err);
}

/*
 * One step.
 */

/* Lines of one file from the row's place on, as long as *left lasts. */
static int take_lines(struct audit_index *ix, struct run_row *row, const char *path, unsigned *left, struct err *err) {
        cleanup(audit_reader_done) struct audit_reader reader = { .fd = -1 };
        struct stat st;
        struct str line;
        int r;

        r = audit_reader_open(&reader, path, err);
        if (r < 0)
                return r;
        if (fstat(reader.fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        bool same = st.st_ino == row->inode && (uint64_t)st.st_size >= row->at;
        uint64_t at = same ? row->at : 0;
        if (lseek(reader.fd, (off_t)at, SEEK_SET) < 0)
                return err_errno(err, "cannot read %s", path);

        while (*left > 0 && (r = audit_reader_next(&reader, &line, err)) > 0) {
                struct audit_record record;
                const struct place place = { (uint64_t)st.st_ino, at, line.n };

                r = audit_line_parse(line, &record, &row->broken);
                if (r < 0)
                        return -EBADMSG;
                if (record.seq > row->seq) {
                        r = take_record(ix, row, &record, &place, err);
                        if (r < 0)
                                return r;
                }
                at += line.n + 1;
                --*left;
        }
        if (r < 0)
                return r;
        row->inode = (uint64_t)st.st_ino;
        row->at = at;
        return 0;
}

/* Files that were read to their end already are passed over: everything before the one that the row names. */
static size_t first_file(const audit_names *files, const struct run_row *row) {
        for (size_t i = files->n; i-- > 0;) {
                struct stat st;
                if (stat(files->p[i], &st) == 0 && st.st_ino == row->inode)
                        return i;
        }
        return 0;
}

/* 1: there is more of it. */
static int take_log(struct audit_index *ix, struct index_work *work, unsigned *left, struct err *err) {
        cleanup(run_row_done) struct run_row row = { 0 };
        cleanup(audit_names_done) audit_names files = { 0 };
        int r;

        r = audit_files(work->path, &files, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        r = row_load(ix, work->path, &row, err);
        if (r < 0)
                return r;

        uint64_t before = row.at;
        for (size_t i = first_file(&files, &row); i<files.n && * left> 0; i++) {
                r = take_lines(ix, &row, files.p[i], left, err);
                if (r == -EBADMSG)
                        break; /* what comes behind a line that nobody can read is not the log's */
                if (r < 0)
                        return r;
        }
        work->read += row.at > before ? row.at - before : 0;

        bool more = *left == 0 && r == 0;
        r = row_store(ix, &row, err);
        if (r < 0)
                return r;

        return more;
}

int audit_index_step(struct audit_index *ix, unsigned lines, struct err *err) {
        unsigned left = lines;
        int r = 0;

        if (ix->work.n == 0)
                return 0;
        if (sqlite3_exec(ix->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
                return index_fault(ix, err);

        while (left > 0 && ix->work.n > 0) {
                struct index_work *work = &ix->work.p[ix->work.n - 1];
                r = take_log(ix, work, &left, err);
                if (r != 0)
                        break;
                free(work->path);
                ix->work.n--;
        }
        if (r < 0) {
                (void)sqlite3_exec(ix->db, "ROLLBACK", NULL, NULL, NULL); /* the first error is the one to tell */
                return r;
        }
        if (sqlite3_exec(ix->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
                return index_fault(ix, err);
        return ix->work.n > 0;
}
