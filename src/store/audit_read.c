/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_read.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "store/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int audit_reader_open(struct audit_reader *reader, const char *path, struct err *err) {
        *reader = (struct audit_reader){ .fd = -1, .buffer = BUF(2 * AUDIT_LINE_MAX) };
        reader->path = str_format("%s", path);
        if (!reader->path)
                return err_memory(err);

        reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (reader->fd < 0)
                return err_errno(err, "cannot open %s", path);

        struct stat st;
        if (fstat(reader->fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "%s is not a regular file", path);

        return 0;
}

void audit_reader_done(struct audit_reader *reader) {
        close_fd(&reader->fd);
        buf_done(&reader->buffer);
        free(reader->path);
        reader->path = NULL;
}

int audit_reader_next(struct audit_reader *reader, struct str *ret_line, struct err *err) {
        for (;;) {
                struct str rest = str_skip(buf_str(&reader->buffer), reader->used);
                ptrdiff_t end = str_find(rest, '\n');
                if (end >= 0) {
                        *ret_line = str_first(rest, (size_t)end);
                        reader->used += (size_t)end + 1;
                        reader->line++;
                        return 1;
                }

                if (rest.n > AUDIT_LINE_MAX)
                        return err_set(err, EBADMSG, "%s:%ju: the line is too long for an audit log", reader->path,
                                       (uintmax_t)reader->line + 1);

                buf_consume(&reader->buffer, reader->used);
                reader->used = 0;
                int room = buf_reserve(&reader->buffer, AUDIT_LINE_MAX / 2);
                if (room < 0)
                        return err_set(err, -room, "no memory to read %s", reader->path);

                ssize_t n = read(reader->fd, reader->buffer.p + reader->buffer.n, AUDIT_LINE_MAX / 2);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_errno(err, "cannot read %s", reader->path);
                if (n == 0)
                        return 0;

                reader->buffer.n += (size_t)n;
        }
}

size_t audit_reader_rest(const struct audit_reader *reader) {
        return reader->buffer.n - reader->used;
}

bool audit_reader_rotated(const struct audit_reader *reader) {
        struct stat ours, named;
        return fstat(reader->fd, &ours) == 0 && stat(reader->path, &named) == 0 &&
               (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
}

void audit_names_done(audit_names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->p[i]);
        vec_done(names);
}

int audit_files(const char *path, audit_names *ret, struct err *err) {
        enum { MOST = 1000 };
        unsigned oldest = 0;

        for (unsigned k = 1; k <= MOST; k++) { /* a gap is seen by its missing records, not skipped over */
                cleanup(free_ptr) char *name = audit_rotated_name(path, k);
                if (!name)
                        return err_memory(err);
                if (access(name, F_OK) == 0)
                        oldest = k;
                else if (k > oldest + AUDIT_KEEP)
                        break;
        }

        for (unsigned k = oldest + 1; k-- > 0;) {
                cleanup(free_ptr) char *name = audit_rotated_name(path, k);
                if (!name)
                        return err_memory(err);
                if (access(name, F_OK) < 0)
                        continue;
                if (vec_push(ret, name) < 0)
                        return err_memory(err);

                name = NULL;
        }

        if (!ret->n)
                return err_set(err, ENOENT, "there is no audit log %s", path);

        return 0;
}

/*
 * The proof. `next` is what the line to come must say.
 */
#define SHOWN_BYTES_MIN (UINT64_C(8) << 20)

struct chain {
        struct audit_report *report;
        struct progress progress;
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

static int check_link(struct chain *chain, const struct audit_record *record, struct err *err) {
        if (chain->report->records == 0) {
                copy_text(chain->first_prev, sizeof chain->first_prev, record->prev);
                return 0;
        }

        if (record->seq != chain->next_seq)
                return err_set(err, EBADMSG, "record %ju stands where record %ju should be: %s", (uintmax_t)record->seq,
                               (uintmax_t)chain->next_seq,
                               record->seq > chain->next_seq ? "records were removed"
                                                             : "records were repeated or moved");

        if (!str_is(record->prev, chain->next_prev))
                return err_set(
                    err, EBADMSG,
                    "record %ju does not follow from the line before it: that line was changed (its SHA-256 is "
                    "%s, the record says %.*s)",
                    (uintmax_t)record->seq, chain->next_prev, STR_FMT(record->prev));

        return 0;
}

static int check_line(struct chain *chain, struct str line, struct err *err) {
        struct audit_record record;
        struct audit_report *report = chain->report;
        int r = audit_line_parse(line, &record, err);
        if (r == 0)
                r = check_link(chain, &record, err);
        if (r < 0)
                return r;

        unsigned char digest[DIGEST_BYTES];
        digest_sha256(line, digest);
        digest_hex(digest, chain->next_prev);
        memcpy(report->last_hash, chain->next_prev, sizeof report->last_hash);
        chain->next_seq = record.seq + 1;

        if (report->records++ == 0) {
                report->first_seq = record.seq;
                copy_text(report->first_ts, sizeof report->first_ts, record.ts);
        }

        report->last_seq = record.seq;
        copy_text(report->last_ts, sizeof report->last_ts, record.ts);
        note_detail(report, &record);

        return 0;
}

static int check_file(struct chain *chain, const char *path, bool last, struct err *err) {
        cleanup(audit_reader_done) struct audit_reader reader;
        struct str line;
        int r = audit_reader_open(&reader, path, err);
        if (r < 0)
                return r;

        while ((r = audit_reader_next(&reader, &line, err)) > 0) {
                int bad = check_line(chain, line, err);
                progress_add(&chain->progress, line.n + 1);
                if (bad < 0)
                        return err_wrap(err, bad, "%s:%ju", path, (uintmax_t)reader.line);
        }

        if (r < 0)
                return r;

        chain->report->files++;
        chain->report->torn = audit_reader_rest(&reader);
        if (chain->report->torn && !last)
                return err_set(err, EBADMSG,
                               "%s:%ju: the last line is not complete although the log goes on in another file", path,
                               (uintmax_t)reader.line + 1);

        return 0;
}

/* A chain may begin later than at record 1 only where the log itself says that rotation dropped what was before. */
static int check_beginning(const struct chain *chain, const char *path, struct err *err) {
        const struct audit_report *report = chain->report;
        static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

        if (report->records == 0)
                return 0;
        if (report->first_seq == 1 && strcmp(chain->first_prev, zeros) != 0)
                return err_set(err, EBADMSG, "%s:1: record 1 names a line before it", path);

        if (report->first_seq > 1 && report->dropped < report->first_seq)
                return err_set(err, EBADMSG,
                               "%s:1: the log begins with record %ju; the %ju records before it are missing", path,
                               (uintmax_t)report->first_seq, (uintmax_t)report->first_seq - 1);

        return 0;
}

static uint64_t bytes_of(const audit_names *names) {
        uint64_t bytes = 0;
        struct stat st;

        for (size_t i = 0; i < names->n; i++)
                if (stat(names->p[i], &st) == 0)
                        bytes += (uint64_t)st.st_size;
        return bytes;
}

int audit_verify(const char *path, struct audit_report *ret, struct err *err) {
        cleanup(audit_names_done) audit_names names = { 0 };
        *ret = (struct audit_report){ 0 };
        struct chain chain = { .report = ret, .progress = { .what = "verifying an audit log", .note = -1 } };
        int r = audit_files(path, &names, err);
        if (r < 0)
                return r;

        chain.progress.total = bytes_of(&names);
        if (chain.progress.total >= SHOWN_BYTES_MIN)
                progress_open(&chain.progress);
        for (size_t i = 0; r == 0 && i < names.n; i++)
                r = check_file(&chain, names.p[i], i + 1 == names.n, err);

        progress_close(&chain.progress);
        if (r != 0)
                return r;

        return check_beginning(&chain, names.p[0], err);
}
