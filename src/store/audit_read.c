/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_read.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int audit_reader_open(struct audit_reader *r, const char *path, struct err *e) {
        *r = (struct audit_reader){ .fd = -1, .buffer = BUF(2 * AUDIT_LINE_MAX) };
        r->path = str_format("%s", path);
        if (!r->path)
                return err_set(e, ENOMEM, "out of memory");
        r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (r->fd < 0)
                return err_errno(e, "cannot open %s", path);
        struct stat st;
        if (fstat(r->fd, &st) < 0)
                return err_errno(e, "cannot examine %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(e, EINVAL, "%s is not a regular file", path);
        return 0;
}

void audit_reader_done(struct audit_reader *r) {
        close_fd(&r->fd);
        buf_done(&r->buffer);
        free(r->path);
        r->path = NULL;
}

int audit_reader_next(struct audit_reader *r, struct str *ret_line, struct err *e) {
        for (;;) {
                struct str rest = str_skip(buf_str(&r->buffer), r->used);
                ptrdiff_t end = str_find(rest, '\n');
                if (end >= 0) {
                        *ret_line = str_first(rest, (size_t)end);
                        r->used += (size_t)end + 1;
                        r->line++;
                        return 1;
                }
                if (rest.n > AUDIT_LINE_MAX)
                        return err_set(e, EBADMSG, "%s:%ju: the line is too long for an audit log", r->path,
                                       (uintmax_t)r->line + 1);
                buf_consume(&r->buffer, r->used);
                r->used = 0;
                int room = buf_reserve(&r->buffer, AUDIT_LINE_MAX / 2);
                if (room < 0)
                        return err_set(e, -room, "no memory to read %s", r->path);
                ssize_t n = read(r->fd, r->buffer.p + r->buffer.n, AUDIT_LINE_MAX / 2);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_errno(e, "cannot read %s", r->path);
                if (n == 0)
                        return 0;
                r->buffer.n += (size_t)n;
        }
}

size_t audit_reader_rest(const struct audit_reader *r) {
        return r->buffer.n - r->used;
}

bool audit_reader_rotated(const struct audit_reader *r) {
        struct stat ours, named;
        return fstat(r->fd, &ours) == 0 && stat(r->path, &named) == 0 &&
               (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
}

void audit_names_done(audit_names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->p[i]);
        vec_done(names);
}

int audit_files(const char *path, audit_names *ret, struct err *e) {
        enum { MOST = 1000 };
        unsigned oldest = 0;
        for (unsigned k = 1; k <= MOST; k++) { /* a gap is seen by its missing records, not skipped over */
                cleanup(free_ptr) char *name = audit_rotated_name(path, k);
                if (!name)
                        return err_set(e, ENOMEM, "out of memory");
                if (access(name, F_OK) == 0)
                        oldest = k;
                else if (k > oldest + AUDIT_KEEP)
                        break;
        }
        for (unsigned k = oldest + 1; k-- > 0;) {
                cleanup(free_ptr) char *name = audit_rotated_name(path, k);
                if (!name)
                        return err_set(e, ENOMEM, "out of memory");
                if (access(name, F_OK) < 0)
                        continue;
                if (vec_push(ret, name) < 0)
                        return err_set(e, ENOMEM, "out of memory");
                name = NULL;
        }
        return ret->n ? 0 : err_set(e, ENOENT, "there is no audit log %s", path);
}

/*
 * The proof. `next` is what the line to come must say.
 */
struct chain {
        struct audit_report *report;
        uint64_t next_seq;
        char next_prev[DIGEST_HEX_MAX];
        char first_prev[DIGEST_HEX_MAX];
};

static void copy_text(char *to, size_t size, struct str s) {
        snprintf(to, size, "%.*s", STR_FMT(s));
}

static void note_detail(struct audit_report *report, const struct audit_record *record) {
        uint64_t seq;
        bool note = str_is(record->kind, "note");
        report->closed = note && str_is(record->detail, AUDIT_STOPPED_TEXT);
        if (note && str_starts(record->detail, STR(AUDIT_DROPPED_TEXT)) &&
            str_to_u64(str_skip(record->detail, sizeof AUDIT_DROPPED_TEXT - 1), UINT64_MAX, &seq))
                report->dropped = seq;
}

static int check_link(struct chain *c, const struct audit_record *record, struct err *e) {
        if (c->report->records == 0) {
                copy_text(c->first_prev, sizeof c->first_prev, record->prev);
                return 0;
        }
        if (record->seq != c->next_seq)
                return err_set(e, EBADMSG, "record %ju stands where record %ju should be: %s", (uintmax_t)record->seq,
                               (uintmax_t)c->next_seq,
                               record->seq > c->next_seq ? "records were removed" : "records were repeated or moved");
        if (!str_is(record->prev, c->next_prev))
                return err_set(
                    e, EBADMSG,
                    "record %ju does not follow from the line before it: that line was changed (its SHA-256 is "
                    "%s, the record says %.*s)",
                    (uintmax_t)record->seq, c->next_prev, STR_FMT(record->prev));
        return 0;
}

static int check_line(struct chain *c, struct str line, struct err *e) {
        struct audit_record record;
        struct audit_report *report = c->report;
        int r = audit_line_parse(line, &record, e);
        if (r == 0)
                r = check_link(c, &record, e);
        if (r < 0)
                return r;
        unsigned char digest[DIGEST_BYTES];
        digest_sha256(line, digest);
        digest_hex(digest, c->next_prev);
        memcpy(report->last_hash, c->next_prev, sizeof report->last_hash);
        c->next_seq = record.seq + 1;
        if (report->records++ == 0) {
                report->first_seq = record.seq;
                copy_text(report->first_ts, sizeof report->first_ts, record.ts);
        }
        report->last_seq = record.seq;
        copy_text(report->last_ts, sizeof report->last_ts, record.ts);
        note_detail(report, &record);
        return 0;
}

static int check_file(struct chain *c, const char *path, bool last, struct err *e) {
        cleanup(audit_reader_done) struct audit_reader reader;
        struct str line;
        int r = audit_reader_open(&reader, path, e);
        if (r < 0)
                return r;
        while ((r = audit_reader_next(&reader, &line, e)) > 0) {
                int bad = check_line(c, line, e);
                if (bad < 0)
                        return err_wrap(e, bad, "%s:%ju", path, (uintmax_t)reader.line);
        }
        if (r < 0)
                return r;
        c->report->files++;
        c->report->torn = audit_reader_rest(&reader);
        if (c->report->torn && !last)
                return err_set(e, EBADMSG,
                               "%s:%ju: the last line is not complete although the log goes on in another file", path,
                               (uintmax_t)reader.line + 1);
        return 0;
}

/* A chain may begin later than at record 1 only where the log itself says that rotation dropped what was before. */
static int check_beginning(const struct chain *c, const char *path, struct err *e) {
        const struct audit_report *report = c->report;
        static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
        if (report->records == 0)
                return 0;
        if (report->first_seq == 1 && strcmp(c->first_prev, zeros) != 0)
                return err_set(e, EBADMSG, "%s:1: record 1 names a line before it", path);
        if (report->first_seq > 1 && report->dropped < report->first_seq)
                return err_set(e, EBADMSG,
                               "%s:1: the log begins with record %ju; the %ju records before it are missing", path,
                               (uintmax_t)report->first_seq, (uintmax_t)report->first_seq - 1);
        return 0;
}

int audit_verify(const char *path, struct audit_report *ret, struct err *e) {
        cleanup(audit_names_done) audit_names names = { 0 };
        *ret = (struct audit_report){ 0 };
        struct chain c = { .report = ret };
        int r = audit_files(path, &names, e);
        for (size_t i = 0; r == 0 && i < names.n; i++)
                r = check_file(&c, names.p[i], i + 1 == names.n, e);
        return r == 0 ? check_beginning(&c, names.p[0], e) : r;
}
