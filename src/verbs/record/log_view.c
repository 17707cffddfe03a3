/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bailey wrote these logs, but about names and paths that a hostile program chose, and they may have been edited since:
 * every text is unescaped and escaped again for a terminal before it is shown.
 */
#include "verbs/record/log_view_internal.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "store/audit_place.h"
#include "store/audit_read.h"
#include "verbs/sandboxes/sandbox_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN_MAX = 300, TARGET_WIDTH = 40, VIA_WIDTH = 11, RUN_WIDTH = 12, FOLLOW_MS = 1000 };

void log_view_done(struct view *view) {
        buf_done(&view->line);
        buf_done(&view->text);
}

int log_name_run(const char *file, const char *run, char **ret, struct err *err) {
        if (!file)
                return names_run(run, ret, err);

        *ret = run ? str_dup(str_of(run)) : NULL;
        if (run && !*ret)
                return err_memory(err);

        return 0;
}

int log_find(const char *file, const char *run, char **ret, struct err *err) {
        cleanup(free_ptr) char *id = NULL;
        int r = log_name_run(file, run, &id, err);

        if (r < 0)
                return r;
        if (!file)
                return audit_find_run(id, ret, err);
        *ret = str_format("%s", file);
        if (!*ret)
                return err_memory(err);

        return 0;
}

/* The records' own times are UTC text that sorts: the limit is brought into the same form. */
int log_parse_time(const char *option, const char *text, char ret[static CLOCK_TEXT_MAX], struct err *err) {
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
                return err_set(err, EINVAL, "%s takes a duration such as 10m, or a time such as 2026-11-15T03:00 (UTC)",
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

static int add_shown(struct view *view, struct str escaped) {
        buf_clear(&view->text);
        int r = audit_unescape(&view->text, escaped);
        if (r < 0)
                return r;

        return escape_text(&view->line, buf_str(&view->text), SHOWN_MAX);
}

/* Fills up to the width, counted from `start`. */
static int view_pad(struct view *view, size_t start, size_t width) {
        size_t n = view->line.n - start;
        if (n < width)
                return buf_printf(&view->line, "%*s", (int)(width - n), "");

        return 0;
}

static int add_padded(struct view *view, struct str escaped, size_t width) {
        size_t start = view->line.n;
        int r = add_shown(view, escaped);
        if (r < 0)
                return r;

        return view_pad(view, start, width);
}

static int add_time(struct view *view, const struct audit_record *rec) {
        struct tm when;
        char day[16], clock[16];

        if (!local_time(rec->ts, &when))
                return add_shown(view, rec->ts);

        strftime(day, sizeof day, "%Y-%m-%d", &when);
        strftime(clock, sizeof clock, "%H:%M:%S", &when);
        int r = 0;

        if (strcmp(day, view->day) != 0) {
                snprintf(view->day, sizeof view->day, "%s", day);
                r = buf_printf(&view->line, "%s\n", day);
        }

        if (r < 0)
                return r;

        return buf_add(&view->line, clock);
}

static const char *view_sentence(struct str code) {
        if (str_is(code, reason_code(REASON_ASK))) /* by the time of a record they were */
                return "Nobody who was asked has allowed it.";

        for (int i = 0; i < REASONS; i++)
                if (str_is(code, reason_code((enum reason)i)))
                        return reason_text((enum reason)i);
        return "";
}

/* "GET host:port/path", "host:port", or a path. */
static int add_target(struct view *view, const struct audit_record *rec) {
        size_t start = view->line.n;
        int r = 0;

        if (rec->method.n) {
                r = add_shown(view, rec->method);
                if (r == 0)
                        r = buf_add_char(&view->line, ' ');
        }

        if (r == 0 && rec->domain.n)
                r = add_shown(view, rec->domain);
        if (r == 0 && rec->domain.n && rec->port && !str_is(rec->kind, "dns"))
                r = buf_printf(&view->line, ":%" PRIu64, rec->port);
        if (r == 0 && rec->path.n)
                r = add_shown(view, rec->path);
        if (r < 0)
                return r;

        return view_pad(view, start, TARGET_WIDTH);
}

static int add_amount(struct view *view, uint64_t bytes) {
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
        size_t unit = 0;
        double n = (double)bytes;
        while (n >= 1024 && unit + 1 < sizeof units / sizeof *units) {
                n /= 1024;
                unit++;
        }

        return buf_printf(&view->line, unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

/* The outcome: amounts if it passed, the reason if not. */
static int add_outcome(struct view *view, const struct audit_record *rec, bool opened) {
        int r = 0;

        if (rec->allowed && !opened && !str_is(rec->kind, "dns")) {
                r = buf_add(&view->line, "  in ");
                if (r >= 0)
                        r = add_amount(view, rec->bytes_in);
                if (r >= 0)
                        r = buf_add(&view->line, ", out ");
                if (r >= 0)
                        r = add_amount(view, rec->bytes_out);
                if (r >= 0)
                        r = buf_printf(&view->line, ", %.1f ms", (double)rec->duration_us / 1000);
        }

        if (r == 0 && !rec->allowed)
                r = buf_printf(&view->line, "  %s", view_sentence(rec->reason));

        if (r == 0 && rec->rule.n) {
                r = buf_add(&view->line, "  [");
                if (r >= 0)
                        r = add_shown(view, rec->rule);
                r = r < 0 || !rec->origin.n ? r : buf_add(&view->line, ", ");
                r = r < 0 || !rec->origin.n ? r : add_shown(view, rec->origin);
                if (r >= 0)
                        r = buf_add_char(&view->line, ']');
        }

        if (r == 0 && rec->count)
                r = buf_printf(&view->line, "  %" PRIu64 " times", rec->count);

        if (r == 0 && rec->swapped.n) {
                r = buf_add(&view->line, "  swapped ");
                if (r >= 0)
                        r = add_shown(view, rec->swapped);
        }

        return r;
}

static int add_decision(struct view *view, const struct audit_record *rec) {
        const char *word;

        if (str_is(rec->kind, "tunnel-close"))
                word = "close";
        else if (rec->allowed)
                word = "allow";
        else
                word = "DENY";

        if (!view->request->color)
                return buf_printf(&view->line, "  %-5s  ", word);

        return buf_printf(&view->line, "  %s%-5s\033[0m  ", rec->allowed ? "\033[32m" : "\033[31m", word);
}

static int add_record(struct view *view, const struct audit_record *rec) {
        char status[24] = "";
        int r = add_time(view, rec);
        if (r < 0)
                return r;

        if (view->request->all) {
                r = buf_add(&view->line, "  ");
                if (r < 0)
                        return r;

                r = add_padded(view, rec->run_id, RUN_WIDTH);
                if (r < 0)
                        return r;
        }

        if (!rec->has_allowed) {
                r = buf_printf(&view->line, "  %-5s  ", "note");
                if (r < 0)
                        return r;

                return add_shown(view, rec->detail);
        }

        if (rec->status >= 100)
                snprintf(status, sizeof status, "%" PRIu64, rec->status);

        r = add_decision(view, rec);
        if (r == 0)
                r = add_padded(view, rec->via.n ? rec->via : rec->kind, VIA_WIDTH);
        if (r >= 0)
                r = buf_printf(&view->line, " %3s  ", status);
        if (r >= 0)
                r = add_target(view, rec);
        if (r >= 0)
                r = add_outcome(view, rec, str_is(rec->kind, "tunnel-open"));
        if (r == 0 && rec->detail.n) {
                r = buf_add(&view->line, "  ");
                if (r >= 0)
                        r = add_shown(view, rec->detail);
        }

        return r;
}

/* The internals of a JSON string, as the log has it. */
static int add_field(struct view *view, const char *name, struct str inside) {
        if (inside.p)
                return buf_printf(&view->line, ",\"%s\":\"%.*s\"", name, STR_FMT(inside));

        return buf_printf(&view->line, ",\"%s\":null", name);
}

static bool is_request(const struct audit_record *rec) {
        return str_is(rec->kind, event_kind_name(EVENT_REQUEST)) ||
               str_is(rec->kind, event_kind_name(EVENT_TUNNEL_OPEN)) || str_is(rec->kind, event_kind_name(EVENT_DNS)) ||
               str_is(rec->kind, event_kind_name(EVENT_PACKET));
}

/* A tunnel has no request of its own that could be seen: it is shown as the CONNECT that asked for it, answered as that
 * is. */
static int add_request(struct view *view, const struct audit_record *rec) {
        bool tunnel = str_is(rec->kind, event_kind_name(EVENT_TUNNEL_OPEN));
        struct str method;
        if (rec->method.p)
                method = rec->method;
        else if (tunnel)
                method = STR("CONNECT");
        else
                method = STR("");

        struct str path = rec->path.p ? rec->path : STR("");
        uint64_t status = tunnel && rec->allowed && rec->status == 0 ? 200 : rec->status;
        int r = buf_printf(&view->line, "{\"timestamp\":\"%.*s\"", STR_FMT(rec->ts));
        if (r == 0)
                r = add_field(view, "run_id", rec->run_id);
        if (r == 0)
                r = add_field(view, "domain", rec->domain);
        if (r == 0)
                r = add_field(view, "path", path);
        if (r == 0)
                r = add_field(view, "method", method);
        if (r == 0)
                r = buf_printf(&view->line, ",\"allowed\":%s", rec->allowed ? "true" : "false");
        if (r == 0)
                r = add_field(view, "whitelist_matched", rec->allowed ? rec->rule : (struct str){ 0 });
        if (r < 0)
                return r;

        return buf_printf(&view->line, ",\"status\":%ju}", (uintmax_t)status);
}

static bool view_wanted(const struct view *view, const struct audit_record *rec) {
        const struct log_request *request = view->request;
        if (request->requests && !is_request(rec))
                return false;
        if (request->denied && (!rec->has_allowed || rec->allowed))
                return false;
        if (request->run && !str_starts(rec->run_id, str_of(request->run)))
                return false;

        struct str since = str_of(view->since);
        return since.n == 0 || memcmp(rec->ts.p, since.p, min_of(rec->ts.n, since.n)) >= 0;
}

int log_view_record(struct view *view, struct str line, const struct audit_record *rec) {
        int r;

        buf_clear(&view->line);

        if (view->request->requests)
                r = add_request(view, rec);
        else if (view->request->json)
                r = buf_append(&view->line, line);
        else
                r = add_record(view, rec);

        if (r < 0)
                return r;

        return buf_add_char(&view->line, '\n');
}

static int show_line(struct view *view, struct str line, const struct audit_reader *reader, struct err *err) {
        struct audit_record rec;
        int r = audit_line_parse(line, &rec, err);
        if (r < 0)
                return err_wrap(err, r, "%s:%ju (\"bailey log verify\" says more)", reader->path,
                                (uintmax_t)reader->line);

        if (!view_wanted(view, &rec))
                return 0;

        r = log_view_record(view, line, &rec);
        if (r < 0)
                return err_set(err, -r, "%s:%ju: the record cannot be shown", reader->path, (uintmax_t)reader->line);

        return view->request->on_line(view->request->arg, buf_str(&view->line));
}

static int show_rest(struct view *view, struct audit_reader *reader, struct err *err) {
        struct str line;
        int r;

        while ((r = audit_reader_next(reader, &line, err)) > 0) {
                r = show_line(view, line, reader, err);
                if (r < 0)
                        return r;
        }

        return r;
}

/*
 * Following: wakes up when something happens in the directory, and at least once a second where that cannot be watched.
 */
static int view_follow(struct view *view, struct audit_reader *reader, const char *path, struct err *err) {
        struct str name = path_basename(path);
        cleanup(free_ptr) char *directory =
            name.p > path ? str_dup(str_n(path, (size_t)(name.p - path))) : str_format(".");
        cleanup(close_fd) int watch = -1;

        if (directory)
                watch = log_watch(directory);

        for (;;) {
                char events[4096];
                struct pollfd pollfd = { .fd = watch, .events = POLLIN };

                (void)poll(&pollfd, watch >= 0, FOLLOW_MS);
                while (watch >= 0 && read(watch, events, sizeof events) > 0)
                        ;

                bool rotated =
                    audit_reader_rotated(reader); /* before reading: what is there now is all there will be */
                int r = show_rest(view, reader, err);
                if (r == 0 && rotated) {
                        audit_reader_done(reader);
                        r = audit_reader_open(reader, path, err);
                }

                if (r < 0)
                        return r;
        }
}

int log_show(const struct log_request *asked, struct err *err) {
        cleanup(free_ptr) char *path = NULL, *run = NULL;
        struct log_request named = *asked, *request = &named;
        cleanup(log_view_done) struct view view = { .request = request,
                                                    .line = BUF(AUDIT_LINE_MAX),
                                                    .text = BUF(AUDIT_LINE_MAX) };
        cleanup(audit_names_done) audit_names names = { 0 };
        int r = log_parse_time("--since", request->since, view.since, err);
        if (r == 0)
                r = log_name_run(request->file, request->run, &run, err);

        named.run = run;
        if (r == 0)
                r = log_find(request->file, request->run, &path, err);
        if (r == 0)
                r = audit_files(path, &names, err);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                cleanup(audit_reader_done) struct audit_reader reader = { .fd = -1 };

                r = audit_reader_open(&reader, names.p[i], err);
                if (r == 0)
                        r = show_rest(&view, &reader, err);
                if (r == 0 && request->follow && i + 1 == names.n)
                        r = view_follow(&view, &reader, path, err);
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

static int verify_json(const char *path, const struct audit_report *rep, bool whole, const struct err *err,
                       struct buf *out) {
        struct emit j = emit_to(out);

        emit_open(&j, '{');
        emit_put_text(&j, "file", path);
        emit_put_bool(&j, "whole", whole);
        emit_put_text(&j, "problem", whole ? NULL : err_text(err));
        emit_put_number(&j, "records", rep->records);
        emit_put_number(&j, "files", rep->files);
        emit_put_number(&j, "first_seq", rep->first_seq);
        emit_put_number(&j, "last_seq", rep->last_seq);
        emit_put_text(&j, "last_sha256", rep->records ? rep->last_hash : NULL);
        emit_put_number(&j, "unfinished_bytes", rep->torn);
        emit_put_bool(&j, "closed", rep->closed);
        emit_close(&j);

        int r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

/* Every writer holds a lock on its log for as long as it lives. */
static bool has_writer(const char *path) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* A log whose writer is gone should end with a closing record. Without one, the writer was killed or the log was
 * truncated: nobody can tell which. */
static int prove_end(const char *path, const struct audit_report *rep, bool running, struct err *err) {
        if ((rep->closed && !rep->torn) || rep->records == 0 || running)
                return 0;
        return err_set(
            err, EBADMSG,
            "%s: the last record, %" PRIu64
            ", is not an end, and nobody writes to it any more: its writer was killed, or what followed was cut off",
            path, rep->last_seq);
}

int log_prove(const char *path, struct audit_report *ret, bool *ret_running, struct err *err) {
        bool running = has_writer(path); /* before it is read: what ends meanwhile has its end */
        int r;

        *ret_running = running;
        r = audit_verify(path, ret, err);
        if (r < 0)
                return r;

        return prove_end(path, ret, running, err);
}

int log_verify(const char *file, const char *run, bool json, struct buf *out, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        struct audit_report report;
        struct err broken = { 0 };
        bool running;
        int r = log_find(file, run, &path, err);
        if (r < 0)
                return r;

        int proof = log_prove(path, &report, &running, &broken);
        if (proof < 0 && proof != -EBADMSG)
                return err_set(err, -proof, "%s", err_text(&broken));

        if (json)
                r = verify_json(path, &report, proof == 0, &broken, out);
        else if (proof == 0)
                r = verify_text(path, &report, out);
        else
                r = 0;
        if (r < 0)
                return err_set(err, -r, "out of memory");

        if (proof < 0)
                return err_set(err, EBADMSG, "%s", err_text(&broken));

        return 0;
}
