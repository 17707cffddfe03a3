/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read here was written by this program, but about names and paths that a hostile program chose, and perhaps
 * edited since: every text is unescaped and escaped again for a terminal before it is shown.
 */
#include "verbs/log_view_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/audit_place.h"
#include "store/audit_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN_MAX = 300, TARGET_WIDTH = 40, VIA_WIDTH = 11, RUN_WIDTH = 12, FOLLOW_MS = 1000 };

void log_view_done(struct view *v) {
        buf_done(&v->line);
        buf_done(&v->text);
}

int log_find(const char *file, const char *run, char **ret, struct err *e) {
        if (!file)
                return audit_find_run(run, ret, e);
        *ret = str_format("%s", file);
        return *ret ? 0 : err_memory(e);
}

/* The records' own times are UTC text that sorts: the limit is brought into the same form. */
int log_parse_time(const char *option, const char *text, char ret[static CLOCK_TEXT_MAX], struct err *e) {
        static const char form[] = "dddd-dd-ddTdd:dd:dd";
        uint64_t ago;
        size_t n = text ? strlen(text) : 0;
        ret[0] = '\0';
        if (!text)
                return 0;
        if (clock_parse_duration(str_of(text), &ago)) {
                uint64_t now = clock_wall_us();
                clock_text(now > ago / 1000 ? now - ago / 1000 : 0, ret);
                return 0;
        }
        bool fits = n >= 10 && n < sizeof form && (n == 10 || n == 16 || n == 19);
        for (size_t i = 0; i < n && fits; i++)
                fits =
                    form[i] == 'd' ? ascii_is_digit(text[i]) : form[i] == text[i] || (form[i] == 'T' && text[i] == ' ');
        if (!fits)
                return err_set(e, EINVAL, "%s takes a duration such as 10m, or a time such as 2026-11-15T03:00 (UTC)",
                               option);
        snprintf(ret, CLOCK_TEXT_MAX, "%s", text);
        if (n > 10)
                ret[10] = 'T';
        return 0;
}

/*
 * One record in words.
 */

/* "2026-11-15T03:14:07.123456Z" in local time; as it is when it is not of that form. */
static bool local_time(struct str ts, struct tm *ret) {
        static const size_t at[] = { 0, 5, 8, 11, 14, 17 }, length[] = { 4, 2, 2, 2, 2, 2 };
        uint64_t part[6];
        if (ts.n < 19)
                return false;
        for (size_t i = 0; i < 6; i++)
                if (!str_to_u64(str_n(ts.p + at[i], length[i]), 9999, &part[i]))
                        return false;
        struct tm utc = { .tm_year = (int)part[0] - 1900,
                          .tm_mon = (int)part[1] - 1,
                          .tm_mday = (int)part[2],
                          .tm_hour = (int)part[3],
                          .tm_min = (int)part[4],
                          .tm_sec = (int)part[5] };
        time_t seconds = timegm(&utc);
        return localtime_r(&seconds, ret) != NULL;
}

static int add_shown(struct view *v, struct str escaped) {
        buf_clear(&v->text);
        int r = audit_unescape(&v->text, escaped);
        return r < 0 ? r : escape_text(&v->line, buf_str(&v->text), SHOWN_MAX);
}

/* Fills up to the width, counted from `start`. */
static int pad(struct view *v, size_t start, size_t width) {
        size_t n = v->line.n - start;
        return n < width ? buf_printf(&v->line, "%*s", (int)(width - n), "") : 0;
}

static int add_padded(struct view *v, struct str escaped, size_t width) {
        size_t start = v->line.n;
        int r = add_shown(v, escaped);
        return r < 0 ? r : pad(v, start, width);
}

static int add_time(struct view *v, const struct audit_record *rec) {
        struct tm when;
        char day[16], clock[16];
        if (!local_time(rec->ts, &when))
                return add_shown(v, rec->ts);
        strftime(day, sizeof day, "%Y-%m-%d", &when);
        strftime(clock, sizeof clock, "%H:%M:%S", &when);
        int r = 0;
        if (strcmp(day, v->day) != 0) {
                snprintf(v->day, sizeof v->day, "%s", day);
                r = buf_printf(&v->line, "%s\n", day);
        }
        return r < 0 ? r : buf_add(&v->line, clock);
}

static const char *sentence(struct str code) {
        for (int i = 0; i < REASONS; i++)
                if (str_is(code, reason_code((enum reason)i)))
                        return reason_text((enum reason)i);
        return "";
}

/* "GET host:port/path", "host:port", or a path. */
static int add_target(struct view *v, const struct audit_record *rec) {
        size_t start = v->line.n;
        int r = 0;
        if (rec->method.n) {
                r = add_shown(v, rec->method);
                if (r == 0)
                        r = buf_add_char(&v->line, ' ');
        }
        if (r == 0 && rec->domain.n)
                r = add_shown(v, rec->domain);
        if (r == 0 && rec->domain.n && rec->port && !str_is(rec->kind, "dns"))
                r = buf_printf(&v->line, ":%" PRIu64, rec->port);
        if (r == 0 && rec->path.n)
                r = add_shown(v, rec->path);
        return r < 0 ? r : pad(v, start, TARGET_WIDTH);
}

static int add_amount(struct view *v, uint64_t bytes) {
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
        size_t unit = 0;
        double n = (double)bytes;
        while (n >= 1024 && unit + 1 < sizeof units / sizeof *units) {
                n /= 1024;
                unit++;
        }
        return buf_printf(&v->line, unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

/* What came of it: amounts for what went through, the reason for what did not. */
static int add_outcome(struct view *v, const struct audit_record *rec, bool opened) {
        int r = 0;
        if (rec->allowed && !opened && !str_is(rec->kind, "dns")) {
                r = buf_add(&v->line, "  in ");
                r = r < 0 ? r : add_amount(v, rec->bytes_in);
                r = r < 0 ? r : buf_add(&v->line, ", out ");
                r = r < 0 ? r : add_amount(v, rec->bytes_out);
                r = r < 0 ? r : buf_printf(&v->line, ", %.1f ms", (double)rec->duration_us / 1000);
        }
        if (r == 0 && !rec->allowed)
                r = buf_printf(&v->line, "  %s", sentence(rec->reason));
        if (r == 0 && rec->rule.n) {
                r = buf_add(&v->line, "  [");
                r = r < 0 ? r : add_shown(v, rec->rule);
                r = r < 0 || !rec->origin.n ? r : buf_add(&v->line, ", ");
                r = r < 0 || !rec->origin.n ? r : add_shown(v, rec->origin);
                r = r < 0 ? r : buf_add_char(&v->line, ']');
        }
        if (r == 0 && rec->count)
                r = buf_printf(&v->line, "  %" PRIu64 " times", rec->count);
        if (r == 0 && rec->swapped.n) {
                r = buf_add(&v->line, "  swapped ");
                r = r < 0 ? r : add_shown(v, rec->swapped);
        }
        return r;
}

static int add_record(struct view *v, const struct audit_record *rec) {
        bool color = v->request->color, closed = str_is(rec->kind, "tunnel-close"),
             opened = str_is(rec->kind, "tunnel-open");
        const char *word = closed ? "close" : rec->allowed ? "allow" : "DENY";
        const char *paint = !color ? "" : rec->allowed ? "\033[32m" : "\033[31m";
        char status[24] = "";
        int r = add_time(v, rec);
        if (r < 0)
                return r;
        if (v->request->all) {
                r = buf_add(&v->line, "  ");
                if (r < 0)
                        return r;
                r = add_padded(v, rec->run_id, RUN_WIDTH);
                if (r < 0)
                        return r;
        }
        if (!rec->has_allowed) {
                r = buf_printf(&v->line, "  %-5s  ", "note");
                return r < 0 ? r : add_shown(v, rec->detail);
        }
        if (rec->status >= 100)
                snprintf(status, sizeof status, "%" PRIu64, rec->status);
        r = buf_printf(&v->line, "  %s%-5s%s  ", paint, word, color ? "\033[0m" : "");
        r = r < 0 ? r : add_padded(v, rec->via.n ? rec->via : rec->kind, VIA_WIDTH);
        r = r < 0 ? r : buf_printf(&v->line, " %3s  ", status);
        r = r < 0 ? r : add_target(v, rec);
        r = r < 0 ? r : add_outcome(v, rec, opened);
        if (r == 0 && rec->detail.n) {
                r = buf_add(&v->line, "  ");
                r = r < 0 ? r : add_shown(v, rec->detail);
        }
        return r;
}

/* The inside of a JSON string, as the log has it. */
static int add_field(struct view *v, const char *name, struct str inside) {
        return inside.p ? buf_printf(&v->line, ",\"%s\":\"%.*s\"", name, STR_FMT(inside))
                        : buf_printf(&v->line, ",\"%s\":null", name);
}

static bool is_request(const struct audit_record *rec) {
        return str_is(rec->kind, event_kind_name(EVENT_REQUEST)) ||
               str_is(rec->kind, event_kind_name(EVENT_TUNNEL_OPEN)) || str_is(rec->kind, event_kind_name(EVENT_DNS)) ||
               str_is(rec->kind, event_kind_name(EVENT_PACKET));
}

/* A tunnel has no request of its own that could be seen: it is shown as the CONNECT that asked for it, answered as that
 * is. */
static int add_request(struct view *v, const struct audit_record *rec) {
        bool tunnel = str_is(rec->kind, event_kind_name(EVENT_TUNNEL_OPEN));
        struct str method = rec->method.p ? rec->method : tunnel ? STR("CONNECT") : STR("");
        struct str path = rec->path.p ? rec->path : STR("");
        uint64_t status = tunnel && rec->allowed && rec->status == 0 ? 200 : rec->status;
        int r = buf_printf(&v->line, "{\"timestamp\":\"%.*s\"", STR_FMT(rec->ts));
        if (r == 0)
                r = add_field(v, "run_id", rec->run_id);
        if (r == 0)
                r = add_field(v, "domain", rec->domain);
        if (r == 0)
                r = add_field(v, "path", path);
        if (r == 0)
                r = add_field(v, "method", method);
        if (r == 0)
                r = buf_printf(&v->line, ",\"allowed\":%s", rec->allowed ? "true" : "false");
        if (r == 0)
                r = add_field(v, "whitelist_matched", rec->allowed ? rec->rule : (struct str){ 0 });
        return r < 0 ? r : buf_printf(&v->line, ",\"status\":%ju}", (uintmax_t)status);
}

static bool wanted(const struct view *v, const struct audit_record *rec) {
        const struct log_request *q = v->request;
        if (q->requests && !is_request(rec))
                return false;
        if (q->denied && (!rec->has_allowed || rec->allowed))
                return false;
        if (q->run && !str_starts(rec->run_id, str_of(q->run)))
                return false;
        struct str since = str_of(v->since);
        return since.n == 0 || memcmp(rec->ts.p, since.p, rec->ts.n < since.n ? rec->ts.n : since.n) >= 0;
}

int log_view_record(struct view *v, struct str line, const struct audit_record *rec) {
        int r;

        buf_clear(&v->line);
        if (v->request->requests)
                r = add_request(v, rec);
        else if (v->request->json)
                r = buf_append(&v->line, line);
        else
                r = add_record(v, rec);
        if (r < 0)
                return r;
        return buf_add_char(&v->line, '\n');
}

static int show_line(struct view *v, struct str line, const struct audit_reader *reader, struct err *e) {
        struct audit_record rec;
        int r = audit_line_parse(line, &rec, e);
        if (r < 0)
                return err_wrap(e, r, "%s:%ju (\"bailey log verify\" says more)", reader->path,
                                (uintmax_t)reader->line);
        if (!wanted(v, &rec))
                return 0;
        r = log_view_record(v, line, &rec);
        if (r < 0)
                return err_set(e, -r, "%s:%ju: the record cannot be shown", reader->path, (uintmax_t)reader->line);
        return v->request->on_line(v->request->arg, buf_str(&v->line));
}

static int show_rest(struct view *v, struct audit_reader *reader, struct err *e) {
        struct str line;
        int r;
        while ((r = audit_reader_next(reader, &line, e)) > 0) {
                r = show_line(v, line, reader, e);
                if (r < 0)
                        return r;
        }
        return r;
}

/*
 * Following: wakes up when something happens in the directory, and at least once a second where that cannot be watched.
 */
static int follow(struct view *v, struct audit_reader *reader, const char *path, struct err *e) {
        cleanup(close_fd) int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        struct str name = path_basename(path);
        cleanup(free_ptr) char *directory =
            name.p > path ? str_dup(str_n(path, (size_t)(name.p - path))) : str_format(".");
        if (watch >= 0 && directory)
                (void)inotify_add_watch(watch, directory, IN_MODIFY | IN_CREATE | IN_MOVED_TO);
        for (;;) {
                char events[4096];
                struct pollfd p = { .fd = watch, .events = POLLIN };
                (void)poll(&p, watch >= 0, FOLLOW_MS);
                while (watch >= 0 && read(watch, events, sizeof events) > 0)
                        ;
                bool rotated =
                    audit_reader_rotated(reader); /* before reading: what is there now is all there will be */
                int r = show_rest(v, reader, e);
                if (r == 0 && rotated) {
                        audit_reader_done(reader);
                        r = audit_reader_open(reader, path, e);
                }
                if (r < 0)
                        return r;
        }
}

int log_show(const struct log_request *q, struct err *e) {
        cleanup(
            log_view_done) struct view v = { .request = q, .line = BUF(AUDIT_LINE_MAX), .text = BUF(AUDIT_LINE_MAX) };
        cleanup(free_ptr) char *path = NULL;
        cleanup(audit_names_done) audit_names names = { 0 };
        int r = log_parse_time("--since", q->since, v.since, e);
        if (r == 0)
                r = log_find(q->file, q->run, &path, e);
        if (r == 0)
                r = audit_files(path, &names, e);
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                cleanup(audit_reader_done) struct audit_reader reader = { .fd = -1 };
                r = audit_reader_open(&reader, names.p[i], e);
                if (r == 0)
                        r = show_rest(&v, &reader, e);
                if (r == 0 && q->follow && i + 1 == names.n)
                        r = follow(&v, &reader, path, e);
        }
        return r;
}

/*
 * The proof.
 */
static int verify_text(const char *path, const struct audit_report *rep, struct buf *out) {
        int r = buf_printf(out, "%s: whole\n", path);
        if (r == 0 && rep->records)
                r = buf_printf(
                    out, "%" PRIu64 " records, %" PRIu64 " to %" PRIu64 ", in %" PRIu64 " file%s\nfrom %s to %s\n",
                    rep->records, rep->first_seq, rep->last_seq, rep->files, rep->files == 1 ? "" : "s", rep->first_ts,
                    rep->last_ts);
        if (r == 0 && rep->records)
                r = buf_printf(out, "SHA-256 of the last record: %s\n", rep->last_hash);
        if (r == 0 && rep->first_seq > 1)
                r = buf_printf(out, "the records before %" PRIu64 " were dropped by rotation, as the log says\n",
                               rep->first_seq);
        if (r == 0 && rep->torn)
                r = buf_printf(
                    out, "an unfinished record of %zu bytes is at the end: the writer is at work, or was cut off\n",
                    rep->torn);
        if (r == 0 && !rep->closed)
                r = buf_add(out, "the last record is not an end: the writer is at work, or was cut off\n");
        return r;
}

static int verify_json(const char *path, const struct audit_report *rep, bool whole, const struct err *e,
                       struct buf *out) {
        struct emit j = emit_to(out);
        emit_open(&j, '{');
        emit_put_text(&j, "file", path);
        emit_put_bool(&j, "whole", whole);
        emit_put_text(&j, "problem", whole ? NULL : err_text(e));
        emit_put_number(&j, "records", rep->records);
        emit_put_number(&j, "files", rep->files);
        emit_put_number(&j, "first_seq", rep->first_seq);
        emit_put_number(&j, "last_seq", rep->last_seq);
        emit_put_text(&j, "last_sha256", rep->records ? rep->last_hash : NULL);
        emit_put_number(&j, "unfinished_bytes", rep->torn);
        emit_put_bool(&j, "closed", rep->closed);
        emit_close(&j);
        int r = emit_status(&j);
        return r < 0 ? r : buf_add_char(out, '\n');
}

/* Every writer holds a lock on its log for as long as it lives. */
static bool has_writer(const char *path) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* A log whose writer is gone must say that it ended. Its writer was killed, or somebody has cut it off: nobody can
 * tell. */
static int prove_end(const char *path, const struct audit_report *rep, bool running, struct err *e) {
        if ((rep->closed && !rep->torn) || rep->records == 0 || running)
                return 0;
        return err_set(
            e, EBADMSG,
            "%s: the last record, %" PRIu64
            ", is not an end, and nobody writes to it any more: its writer was killed, or what followed was cut off",
            path, rep->last_seq);
}

int log_prove(const char *path, struct audit_report *ret, bool *ret_running, struct err *e) {
        bool running = has_writer(path); /* before it is read: what ends meanwhile has its end */
        int r;

        *ret_running = running;
        r = audit_verify(path, ret, e);
        if (r < 0)
                return r;
        return prove_end(path, ret, running, e);
}

int log_verify(const char *file, const char *run, bool json, struct buf *out, struct err *e) {
        cleanup(free_ptr) char *path = NULL;
        struct audit_report report;
        struct err broken = { 0 };
        bool running;
        int r = log_find(file, run, &path, e);
        if (r < 0)
                return r;
        int proof = log_prove(path, &report, &running, &broken);
        if (proof < 0 && proof != -EBADMSG)
                return err_set(e, -proof, "%s", err_text(&broken));
        r = json         ? verify_json(path, &report, proof == 0, &broken, out)
            : proof == 0 ? verify_text(path, &report, out)
                         : 0;
        if (r < 0)
                return err_set(e, -r, "out of memory");
        return proof < 0 ? err_set(e, EBADMSG, "%s", err_text(&broken)) : 0;
}
