/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/record/report.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/audit_place.h"
#include "verbs/record/log_view.h"
#include "verbs/record/report_internal.h"

#include <assert.h>
#include <errno.h>

static const char *const lane_names[] = { [LANE_RUN] = "run",           [LANE_COMMAND] = "command",
                                          [LANE_HOST] = "host",         [LANE_CREDENTIAL] = "credential",
                                          [LANE_QUESTION] = "question", [LANE_FILE] = "file" };
static_assert(sizeof lane_names / sizeof *lane_names == REPORT_LANES, "one name each");

const char *report_lane_name(enum report_lane lane) {
        return lane_names[lane];
}

static void targets_done(report_targets *targets) {
        for (size_t i = 0; i < targets->n; i++)
                free(targets->p[i]);
        vec_done(targets);
}

static void report_done(struct report *rep) {
        targets_done(&rep->hosts);
        targets_done(&rep->files);
        targets_done(&rep->calls);

        for (size_t i = 0; i < rep->credentials.n; i++) {
                targets_done(&rep->credentials.p[i]->hosts);
                free(rep->credentials.p[i]);
        }

        vec_done(&rep->credentials);

        vec_done(&rep->commands);
        vec_done(&rep->questions);
        vec_done(&rep->moments);
        vec_done(&rep->rules);
        vec_done(&rep->lost);
        changes_done(&rep->changes);
        map_done(&rep->index, NULL);

        map_done(&rep->texts, free);
        buf_done(&rep->scratch);
        free(rep->path);
}

int report_keep(struct report *rep, struct str text, struct str *ret) {
        if (text.n == 0) {
                *ret = STR("");
                return 0;
        }

        char *copy = map_get(&rep->texts, text);
        if (!copy) {
                int r;

                copy = malloc(text.n);
                if (!copy)
                        return -ENOMEM;

                memcpy(copy, text.p, text.n);
                r = map_add(&rep->texts, text, copy);
                if (r < 0) {
                        free(copy);
                        return r;
                }
        }

        *ret = str_n(copy, text.n);
        return 0;
}

int report_keep_escaped(struct report *rep, struct str inside, struct str *ret) {
        int r;

        buf_clear(&rep->scratch);
        r = audit_unescape(&rep->scratch, inside);
        if (r < 0)
                return r;
        return report_keep(rep, buf_str(&rep->scratch), ret);
}

int report_add_moment(struct report *rep, uint64_t at_us, enum report_lane lane, enum report_tone tone,
                      struct str text) {
        struct report_moment moment = { .at_us = at_us, .lane = lane, .tone = tone, .text = text };

        if (rep->moments.n >= REPORT_ROWS_MAX) {
                rep->left_out++;
                return 0;
        }

        return vec_push(&rep->moments, moment);
}

/*
 * Targets: the first record of a host (allowed and refused apart) is a moment, all of them are counts.
 */

/* The target with this key, made when it is new. *ret is NULL when the list is full. */
static int target_of(struct report *rep, report_targets *list, struct str key, struct report_target **ret) {
        struct report_target *found = map_get(&rep->index, key);

        *ret = found;
        if (found)
                return 0;

        if (list->n >= REPORT_ROWS_MAX) {
                rep->left_out++;
                return 0;
        }

        struct report_target *made = calloc(1, sizeof *made);
        if (!made)
                return -ENOMEM;

        if (vec_push(list, made) < 0) {
                free(made);
                return -ENOMEM;
        }

        *ret = made;
        return map_add(&rep->index, key, made);
}

/* The key lies in the scratch buffer until the next text is kept. */
static int target_key(struct report *rep, char kind, struct str name, uint64_t number, struct str *ret) {
        int r;

        buf_clear(&rep->scratch);
        r = buf_printf(&rep->scratch, "%c%ju:", kind, (uintmax_t)number);
        if (r < 0)
                return r;

        r = buf_append(&rep->scratch, name);
        if (r < 0)
                return r;

        *ret = buf_str(&rep->scratch);
        return 0;
}

/* Texts that every record of a target may bring anew. */
static int target_update(struct report *rep, struct report_target *target, const struct audit_record *record,
                         uint64_t at_us) {
        struct {
                struct str from, *to;
        } texts[] = { { record->rule, &target->rule },
                      { record->reason, &target->reason },
                      { record->detail, &target->detail } };
        uint64_t times = record->count ? record->count : 1;

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                if (!texts[i].from.n)
                        continue;
                int r = report_keep_escaped(rep, texts[i].from, texts[i].to);
                if (r < 0)
                        return r;
        }

        if (!target->first_us)
                target->first_us = at_us;

        target->last_us = at_us;

        if (record->allowed)
                target->allowed += times;
        else
                target->refused += times;

        target->bytes_in += record->bytes_in;
        target->bytes_out += record->bytes_out;

        return 0;
}

/* "host:443 allowed", once for each. */
static int host_moment(struct report *rep, const struct report_target *host, bool allowed, uint64_t at_us) {
        struct str text;
        int r;

        buf_clear(&rep->scratch);
        r = buf_append(&rep->scratch, host->name);
        if (r < 0)
                return r;

        if (host->port) {
                r = buf_printf(&rep->scratch, ":%ju", (uintmax_t)host->port);
                if (r < 0)
                        return r;
        }

        if (!allowed && host->reason.n) {
                r = buf_printf(&rep->scratch, " (%.*s)", STR_FMT(host->reason));
                if (r < 0)
                        return r;
        }

        r = report_keep(rep, buf_str(&rep->scratch), &text);
        if (r < 0)
                return r;

        return report_add_moment(rep, at_us, LANE_HOST, allowed ? TONE_ALLOWED : TONE_REFUSED, text);
}

static int take_host(struct report *rep, const struct audit_record *record, uint64_t at_us,
                     struct report_target **ret_host) {
        struct report_target *host;
        struct str key, name;
        int r;

        r = report_keep_escaped(rep, record->domain.n ? record->domain : record->addr, &name);
        if (r < 0)
                return r;

        r = target_key(rep, 'h', name, record->port, &key);
        if (r < 0)
                return r;

        r = target_of(rep, &rep->hosts, key, &host);
        if (r < 0 || !host)
                return r;

        host->name = name;
        host->port = record->port;

        /* A tunnel's end has its bytes; that it was allowed was counted when it began. */
        if (str_is(record->kind, "tunnel-close")) {
                host->bytes_in += record->bytes_in;
                host->bytes_out += record->bytes_out;
                host->last_us = at_us;
                *ret_host = host;

                return 0;
        }

        bool is_new = record->allowed ? host->allowed == 0 : host->refused == 0;
        r = target_update(rep, host, record, at_us);
        if (r < 0)
                return r;

        *ret_host = host;
        if (is_new)
                return host_moment(rep, host, record->allowed, at_us);

        return 0;
}

static int take_access(struct report *rep, const struct audit_record *record, uint64_t at_us, bool is_file) {
        struct report_target *target;
        struct str key, name;
        int r;

        r = report_keep_escaped(rep, is_file ? record->path : record->method, &name);
        if (r < 0)
                return r;

        r = target_key(rep, is_file ? 'f' : 's', name, record->allowed, &key);
        if (r < 0)
                return r;

        r = target_of(rep, is_file ? &rep->files : &rep->calls, key, &target);
        if (r < 0 || !target)
                return r;

        bool is_new = target->allowed + target->refused == 0;
        target->name = name;
        if (is_file && !target->method.n) {
                r = report_keep_escaped(rep, record->method, &target->method);
                if (r < 0)
                        return r;
        }

        r = target_update(rep, target, record, at_us);
        if (r < 0 || !is_new)
                return r;

        return report_add_moment(rep, at_us, LANE_FILE, record->allowed ? TONE_ALLOWED : TONE_REFUSED, name);
}

static int take_command(struct report *rep, const struct audit_record *record, uint64_t at_us) {
        struct report_command command = { .at_us = at_us, .allowed = record->allowed };
        struct {
                struct str from, *to;
        } texts[] = { { record->path, &command.text },
                      { record->method, &command.decision },
                      { record->rule, &command.rule },
                      { record->detail, &command.detail } };

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                int r = report_keep_escaped(rep, texts[i].from, texts[i].to);
                if (r < 0)
                        return r;
        }

        if (rep->commands.n >= REPORT_ROWS_MAX)
                rep->left_out++;
        else if (vec_push(&rep->commands, command) < 0)
                return -ENOMEM;

        return report_add_moment(rep, at_us, LANE_COMMAND, record->allowed ? TONE_ALLOWED : TONE_REFUSED, command.text);
}

/*
 * Credentials: a name, how often it was used, and towards which hosts.
 */
static int credential_of(struct report *rep, struct str name, struct report_credential **ret) {
        struct str key;
        int r;

        r = target_key(rep, 'c', name, 0, &key);
        if (r < 0)
                return r;

        *ret = map_get(&rep->index, key);
        if (*ret)
                return 0;

        struct report_credential *made = calloc(1, sizeof *made);
        if (!made)
                return -ENOMEM;

        if (vec_push(&rep->credentials, made) < 0) {
                free(made);
                return -ENOMEM;
        }

        made->name = name;
        *ret = made;

        return map_add(&rep->index, key, made);
}

static int credential_host(struct report_credential *credential, const struct report_target *host) {
        for (size_t i = 0; i < credential->hosts.n; i++) {
                struct report_target *known = credential->hosts.p[i];
                if (known->port == host->port && str_eq(known->name, host->name)) {
                        known->allowed++;
                        return 0;
                }
        }

        if (credential->hosts.n >= REPORT_ROWS_MAX)
                return 0;

        struct report_target *made = calloc(1, sizeof *made);
        if (!made)
                return -ENOMEM;

        *made = (struct report_target){ .name = host->name, .port = host->port, .allowed = 1 };
        if (vec_push(&credential->hosts, made) < 0) {
                free(made);
                return -ENOMEM;
        }

        return 0;
}

/* `"a","b"`: the inside the array. The line was parsed: each name is a whole JSON string. */
static int take_credentials(struct report *rep, struct str inside, const struct report_target *host, uint64_t at_us) {
        while (inside.n > 2) {
                struct report_credential *credential;
                struct str name;
                size_t end = 1;
                int r;

                while (end < inside.n && inside.p[end] != '"')
                        end += inside.p[end] == '\\' ? 2 : 1;

                r = report_keep_escaped(rep, str_n(inside.p + 1, end - 1), &name);
                if (r < 0)
                        return r;

                r = credential_of(rep, name, &credential);
                if (r < 0)
                        return r;

                if (credential->count++ == 0) {
                        credential->first_us = at_us;
                        r = report_add_moment(rep, at_us, LANE_CREDENTIAL, TONE_ALLOWED, name);
                        if (r < 0)
                                return r;
                }

                credential->last_us = at_us;
                if (host)
                        r = credential_host(credential, host);
                else
                        r = 0;
                if (r < 0)
                        return r;

                inside = str_skip(inside, end + 2);
        }

        return 0;
}

/*
 * The log, record by record.
 */
static int take_record(struct report *rep, const struct audit_record *record) {
        struct report_target *host = NULL;
        uint64_t at_us;
        struct str text;
        int r;

        if (!audit_time(record->ts, &at_us))
                at_us = rep->last_us;

        if (rep->records++ == 0) {
                rep->first_us = at_us;
                r = report_keep_escaped(rep, record->sandbox, &rep->sandbox);
                if (r < 0)
                        return r;

                r = report_keep_escaped(rep, record->run_id, &rep->run_id);
                if (r < 0)
                        return r;
        }

        rep->last_us = at_us;

        if (!record->has_allowed) {
                r = report_keep_escaped(rep, record->detail, &text);
                if (r < 0)
                        return r;

                return report_take_note(rep, at_us, text);
        }

        if (!str_is(record->kind, "tunnel-close")) {
                uint64_t times = record->count ? record->count : 1;

                rep->allowed += record->allowed ? times : 0;
                rep->refused += record->allowed ? 0 : times;
        }

        if (str_is(record->kind, "command"))
                return take_command(rep, record, at_us);
        if (str_is(record->kind, "file") || str_is(record->kind, "syscall"))
                return take_access(rep, record, at_us, str_is(record->kind, "file"));

        r = take_host(rep, record, at_us, &host);
        if (r < 0)
                return r;

        return take_credentials(rep, record->swapped, host, at_us);
}

static int take_file(struct report *rep, const char *path, struct str run_id, struct err *err) {
        cleanup(audit_reader_done) struct audit_reader reader = { .fd = -1 };
        struct str line;
        int r;

        r = audit_reader_open(&reader, path, err);
        if (r < 0)
                return r;

        while ((r = audit_reader_next(&reader, &line, err)) > 0) {
                struct audit_record record;

                r = audit_line_parse(line, &record, err);
                if (r < 0)
                        return err_wrap(err, r, "%s:%ju (\"bailey log verify\" says more)", path,
                                        (uintmax_t)reader.line);

                if (run_id.n && !str_starts(record.run_id, run_id))
                        continue;

                r = take_record(rep, &record);
                if (r < 0)
                        return err_set(err, -r, "%s:%ju: the record does not fit into the report", path,
                                       (uintmax_t)reader.line);
        }

        return r;
}

/* What an overlay of this run holds; none, or one that is still written to, is no error. */
static void take_changes(struct report *rep) {
        cleanup(free_ptr) char *id = rep->sandbox.n ? str_dup(rep->sandbox) : NULL;
        cleanup(overlay_run_done) struct overlay_run overlay = { .lock = -1 };
        struct err why = { 0 };

        if (id && overlays_find(id, NULL, &overlay, &why) == 0)
                rep->has_changes = overlays_changes(&overlay, &rep->changes, &why) == 0;
}

static int report_collect(const struct report_request *request, struct report *rep, struct err *err) {
        cleanup(audit_names_done) audit_names names = { 0 };
        struct str run_id = request->file && request->run ? str_of(request->run) : STR("");
        int r;

        r = log_find(request->file, request->run, &rep->path, err);
        if (r < 0)
                return r;

        r = audit_files(rep->path, &names, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < names.n; i++) {
                r = take_file(rep, names.p[i], run_id, err);
                if (r < 0)
                        return r;
        }

        if (rep->records == 0 && run_id.n)
                return err_set(err, ENOENT, "%s has no record of the run %s", rep->path, request->run);
        if (rep->records == 0)
                return err_set(err, ENOENT, "%s has no record", rep->path);

        take_changes(rep);
        return 0;
}

int report_write(const struct report_request *request, struct buf *out, struct err *err) {
        static int (*const writers[])(const struct report *, struct buf *) = { [REPORT_HTML] = report_put_html,
                                                                               [REPORT_MARKDOWN] = report_put_markdown,
                                                                               [REPORT_JSON] = report_put_json };
        static_assert(sizeof writers / sizeof *writers == REPORT_FORMS, "one for each form");
        cleanup(report_done) struct report rep = { .scratch = BUF(2 * AUDIT_LINE_MAX) };
        int r;

        r = report_collect(request, &rep, err);
        if (r < 0)
                return r;

        r = log_prove(rep.path, &rep.proof, &rep.running, &rep.broken);
        if (r < 0 && r != -EBADMSG)
                return err_set(err, -r, "%s", err_text(&rep.broken));

        rep.whole = r == 0;

        r = writers[request->form](&rep, out);
        if (r < 0)
                return err_set(err, -r, "the report is larger than %u MiB", REPORT_MAX >> 20);

        return 0;
}
