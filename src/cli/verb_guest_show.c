/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest ls, show, jobs, logs. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "cli/verb_guest_internal.h"
#include "guest/guest_disk.h"
#include "guest/guest_jobs.h"
#include "guest/guest_mend.h"
#include "guest/guest_rules.h"
#include "guest/guest_start.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHOW_JSON, SHOW_ROWS };
static const struct option show_rows[] = {
        [SHOW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static const struct option_table show_table = { "Options", show_rows, SHOW_ROWS };

enum { STEPS_SHOWN = 20, JSON_MAX = 64 << 20 };

static bool is_json(const struct call *call) {
        return option_get_flag(&call->options, &show_rows[SHOW_JSON]);
}

static void text_print(const char *text) {
        cleanup(buf_done) struct buf shown = BUF(65536);

        if (escape_text(&shown, str_of(text), 4096) == 0)
                printf("%.*s", STR_FMT(buf_str(&shown)));
}

static void emit_time(struct emit *json, const char *key, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        clock_text(at_us, text);
        emit_put_text(json, key, at_us ? text : NULL);
}

static const char *const disk_states[] = { [RUN_DISK_WELL] = "well",
                                           [RUN_DISK_OVER] = "over",
                                           [RUN_DISK_ENTRIES] = "over",
                                           [RUN_DISK_LOW] = "low",
                                           [RUN_DISK_UNMEASURED] = "unknown" };
static_assert(sizeof disk_states / sizeof *disk_states == RUN_DISK_STATES, "one word each");

/* As it was measured last: while it runs with a limit, or when it started. */
static void emit_disk(struct emit *json, const struct guest *guest) {
        struct run_disk_news news = { 0 };
        bool seen = guest_disk_seen(guest, &news);

        emit_key(json, "disk");
        emit_open(json, '{');
        emit_put_number(json, "limit", guest->row.disk);
        if (seen && news.usage.entries) {
                emit_put_number(json, "used", news.usage.bytes);
                emit_put_number(json, "files", news.usage.entries);
        }
        emit_put_text(json, "state", disk_states[news.state]);
        emit_put_bool(json, "cleaning", news.cleaning && guest->state == GUEST_RUNNING);
        emit_close(json);
}

/* What a person must know of it beside its state. */
static void disk_print(const struct guest *guest, const char *before, const char *after) {
        cleanup(buf_done) struct buf text = BUF(512);
        char limit[DISK_TEXT_MAX];
        struct run_disk_news news;

        if (!guest_disk_seen(guest, &news) || run_disk_text(&news, &text) < 0)
                return;
        if (news.state != RUN_DISK_WELL)
                printf("%s%.*s%s%s", before, STR_FMT(buf_str(&text)), news.cleaning ? "" : "; it is frozen", after);
        else if (news.limit && after[0])
                printf("%s%.*s of %s%s", before, STR_FMT(buf_str(&text)), disk_text(guest->row.disk, limit), after);
}

static void emit_guest(struct emit *json, const struct guest *guest) {
        char run[32];

        guest_run_id(guest, run);
        emit_put_text(json, "name", guest->row.name);
        emit_put_text(json, "id", guest->row.id);
        emit_put_text(json, "kind", guest_kind_name(guest->kind));
        emit_put_text(json, "state", guest_state_name(guest->state));
        emit_put_text(json, "reason", guest->row.reason[0] ? guest->row.reason : NULL);
        emit_put_number(json, "uid", guest->row.uid);
        emit_put_number(json, "gid", guest->row.gid);
        emit_put_text(json, "home", guest->home);
        emit_put_text(json, "sandbox", guest->state == GUEST_RUNNING && run[0] ? run : NULL);
        emit_put_number(json, "idle_seconds", guest->row.idle_s);
        emit_disk(json, guest);
        emit_time(json, "made", guest->row.made_us);
        emit_time(json, "changed", guest->row.changed_us);
        emit_time(json, "used", guest->row.used_us);
}

enum { LS_NAMES, LS_ROWS };
static const struct option ls_rows[] = {
        [LS_NAMES] = { .flag = "names", .type = OPTION_FLAG, .help = "print their names alone, one a line" },
};
static const struct option_table ls_table = { "Options", ls_rows, LS_ROWS };

static int ls_one(const struct guests *guests, struct guest_row *row, struct emit *json, struct err *err) {
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        char day[CLOCK_TEXT_MAX];
        int r = guest_of_row(guests, row, &guest, err);

        if (r < 0)
                return r;

        if (json) {
                emit_open(json, '{');
                emit_guest(json, &guest);
                emit_close(json);
                return 0;
        }

        clock_text(guest.row.used_us, day);
        day[16] = '\0';
        day[10] = ' ';
        printf("%-24s %-9s %-9s %s  %s", guest.row.name, guest_state_name(guest.state), guest_kind_name(guest.kind),
               day, guest.state == GUEST_BROKEN ? guest.row.reason : "");
        if (guest.state == GUEST_RUNNING)
                disk_print(&guest, "", "");
        printf("\n");

        return 0;
}

/* For completion, which makes nothing and puts nothing in order. */
static int ls_names(struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_rows_done) guest_rows rows = { 0 };

        if (!guests_are_there())
                return EXIT_OK;

        int r = guests_open_as_is(&guests, err);
        if (r == 0)
                r = guests_db_list(guests.db, false, &rows, err);
        if (r < 0)
                return exit_of_guest(r, err);

        for (size_t i = 0; i < rows.n; i++)
                printf("%s\n", rows.p[i].name);

        return EXIT_OK;
}

static int run_ls(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        cleanup(buf_done) struct buf out = BUF(JSON_MAX);
        struct emit j = emit_to(&out);
        bool json = is_json(call);

        if (option_get_flag(&call->options, &ls_rows[LS_NAMES]))
                return ls_names(err);

        int r = guests_open(&guests, err);
        if (r == 0)
                r = guests_db_list(guests.db, false, &rows, err);
        if (json)
                emit_open(&j, '[');

        for (size_t i = 0; i < rows.n && r == 0; i++)
                r = ls_one(&guests, &rows.p[i], json ? &j : NULL, err);

        if (r < 0)
                return exit_of_guest(r, err);

        if (json) {
                emit_close(&j);
                return verb_print_json(&j, &out, err);
        }

        if (rows.n == 0)
                printf("There are no guests; `bailey guest create NAME` makes one.\n");

        return EXIT_OK;
}

const struct verb verb_guest_ls = {
        .name = "ls",
        .synopsis = "[OPTIONS]",
        .help = "list guests, their state, kind and last use",
        .tables = { &show_table, &ls_table },
        .run = run_ls,
};

/*
 * show
 */
struct shown_steps {
        struct emit *j;
};

static int show_step(void *arg, const struct guest_step *step) {
        struct shown_steps *steps = arg;
        char at[CLOCK_TEXT_MAX];

        if (steps->j) {
                emit_open(steps->j, '{');
                emit_time(steps->j, "at", step->at_us);
                emit_put_text(steps->j, "step", step->step);
                emit_put_text(steps->j, "state", step->state[0] ? step->state : NULL);
                emit_put_text(steps->j, "note", step->note[0] ? step->note : NULL);
                emit_close(steps->j);

                return 0;
        }

        clock_text(step->at_us, at);
        at[19] = '\0';
        printf("  %s  %-10s %-9s ", at, step->step, step->state);
        text_print(step->note);
        printf("\n");

        return 0;
}

static int show_setting(void *arg, const char *flag, const char *text) {
        struct shown_steps *steps = arg;

        if (steps->j) {
                emit_open(steps->j, '{');
                emit_put_text(steps->j, "option", flag);
                emit_put_text(steps->j, "value", text);
                emit_close(steps->j);

                return 0;
        }

        printf("  --%s ", flag);
        text_print(text);
        printf("\n");

        return 0;
}

static int show_rule(void *arg, bool deny, const char *pattern, const char *day) {
        struct shown_steps *steps = arg;
        const char *rule = deny ? "deny" : "allow";

        if (steps->j) {
                emit_open(steps->j, '{');
                emit_put_text(steps->j, "rule", rule);
                emit_put_text(steps->j, "pattern", pattern);
                emit_put_text(steps->j, "approved", day);
                emit_close(steps->j);

                return 0;
        }

        printf("  %s ", rule);
        text_print(pattern);
        printf(" (approved %s)\n", day);

        return 0;
}

static int show_json(struct guests *guests, const struct guest *guest, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(JSON_MAX);
        struct emit j = emit_to(&out);
        struct shown_steps steps = { &j };

        emit_open(&j, '{');
        emit_guest(&j, guest);
        emit_key(&j, "options");
        emit_open(&j, '[');

        int r = guests_db_settings(guests->db, guest->row.id, show_setting, &steps, err);
        emit_close(&j);
        emit_key(&j, "rules");
        emit_open(&j, '[');

        if (r == 0)
                r = guest_rules(guest, show_rule, &steps, err);

        emit_close(&j);
        emit_key(&j, "steps");
        emit_open(&j, '[');

        if (r == 0)
                r = guests_db_steps(guests->db, guest->row.id, STEPS_SHOWN, show_step, &steps, err);

        emit_close(&j);
        emit_close(&j);

        if (r < 0)
                return exit_of_guest(r, err);

        return verb_print_json(&j, &out, err);
}

static int run_show(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        struct shown_steps steps = { 0 };
        char run[32];
        int code = guest_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;
        if (is_json(call))
                return show_json(&guests, &guest, err);

        guest_run_id(&guest, run);
        printf("%s (%s)\n  state: %s%s%s\n  kind: %s, uid %u, gid %u\n  home: %s\n", guest.row.name, guest.row.id,
               guest_state_name(guest.state), guest.row.reason[0] ? ": " : "", guest.row.reason,
               guest_kind_name(guest.kind), guest.row.uid, guest.row.gid, guest.home);
        if (guest.state == GUEST_RUNNING)
                printf("  sandbox: %s\n", run);
        if (guest.state != GUEST_ARCHIVED)
                disk_print(&guest, "  disk: ", "\n");

        int r = guests_db_settings(guests.db, guest.row.id, show_setting, &steps, err);
        if (r == 0)
                r = guest_rules(&guest, show_rule, &steps, err);
        if (r == 0)
                r = guests_db_steps(guests.db, guest.row.id, STEPS_SHOWN, show_step, &steps, err);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_show = {
        .name = "show",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "show a guest, its options, its rules and its last steps",
        .tables = { &show_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_show,
};

/*
 * jobs, logs
 */
static int show_job(void *arg, const struct guest_job *job) {
        struct emit *j = arg;
        char at[CLOCK_TEXT_MAX];

        if (j) {
                emit_open(j, '{');
                emit_put_number(j, "number", job->number);
                emit_put_text(j, "state", job->state);
                emit_key(j, "status");

                if (strcmp(job->state, "running") == 0)
                        emit_null(j);
                else
                        emit_number(j, (uint64_t)job->status);

                emit_put_text(j, "command", job->command);
                emit_time(j, "started", job->started_us);
                emit_time(j, "ended", job->ended_us);
                emit_close(j);

                return 0;
        }

        clock_text(job->started_us, at);
        at[19] = '\0';
        printf("%4ju  %-7s %3d  %s  ", (uintmax_t)job->number, job->state, job->status, at);
        text_print(job->command);
        printf("\n");

        return 0;
}

static int run_jobs(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(buf_done) struct buf out = BUF(JSON_MAX);
        struct emit j = emit_to(&out);
        int code = guest_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        bool json = is_json(call);
        if (json)
                emit_open(&j, '[');

        int r = guests_db_jobs(guests.db, guest.row.id, show_job, json ? &j : NULL, err);
        if (r < 0 || !json)
                return exit_of_guest(r, err);

        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

const struct verb verb_guest_jobs = {
        .name = "jobs",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "list the jobs of a guest, also those that ended",
        .about = "Columns: number, state (running, ended, lost: its guest or its keeper ended first), exit status, "
                 "start, command.",
        .tables = { &show_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_jobs,
};

enum { LOGS_FOLLOW, LOGS_RAW, LOGS_ROWS };
static const struct option logs_rows[] = {
        [LOGS_FOLLOW] = { .flag = "follow", .letter = 'f', .type = OPTION_FLAG, .help = "go on until the job ends" },
        [LOGS_RAW] = { .flag = "raw",
                       .type = OPTION_FLAG,
                       .help = "the very bytes, also where they would steer the terminal" },
};
static const struct option_table logs_table = { "Options", logs_rows, LOGS_ROWS };

/* Lines end and are indented as the job wanted; everything else that steers a terminal is shown as text. */
static int logs_write(struct str piece, bool raw) {
        cleanup(buf_done) struct buf shown = BUF(1 << 20);
        struct str rest = piece;

        if (raw)
                return fd_write_all(STDOUT_FILENO, piece.p, piece.n);

        while (rest.n) {
                size_t n = 0;
                while (n < rest.n && rest.p[n] != '\n' && rest.p[n] != '\t')
                        n++;

                if (escape_text(&shown, str_first(rest, n), n) < 0)
                        return -ENOMEM;
                if (n < rest.n && buf_add_char(&shown, rest.p[n++]) < 0)
                        return -ENOMEM;

                rest = str_skip(rest, n);
        }

        return fd_write_all(STDOUT_FILENO, shown.p, shown.n);
}

struct job_wanted {
        uint64_t number; /* 0: the last one */
        uint64_t found;
        bool running;
};

static int job_find(void *arg, const struct guest_job *job) {
        struct job_wanted *wanted = arg;

        if (wanted->number && job->number != wanted->number)
                return 0;
        wanted->found = job->number;
        wanted->running = strcmp(job->state, "running") == 0;
        return 0;
}

static int logs_copy(struct guests *guests, const struct guest *guest, struct job_wanted *wanted, int fd, bool follow,
                     bool raw, struct err *err) {
        const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };
        static char piece[32 << 10];
        ssize_t n;

        for (;;) {
                bool running = wanted->running;

                while ((n = read(fd, piece, sizeof piece)) > 0)
                        if (logs_write(str_n(piece, (size_t)n), raw) < 0)
                                return 0; /* nobody reads any more */

                if (n < 0)
                        return err_errno(err, "cannot read the log");
                if (!follow || !running)
                        return 0;

                nanosleep(&pause, NULL);
                int r = guests_db_jobs(guests->db, guest->row.id, job_find, wanted, err);
                if (r < 0)
                        return r;
        }
}

static int run_logs(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(close_fd) int fd = -1;
        struct job_wanted wanted = { 0 };
        int code = guest_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        if (call->argc > 1 && (!str_to_u64(str_of(call->argv[1]), UINT32_MAX, &wanted.number) || wanted.number == 0)) {
                err_set(err, EINVAL, "'%s' is not the number of a job", call->argv[1]);
                return EXIT_USAGE;
        }

        int r = guests_db_jobs(guests.db, guest.row.id, job_find, &wanted, err);
        if (r == 0 && !wanted.found)
                r = err_set(err, ENOENT, "%s has no such job; see `bailey guest jobs %s`", guest.row.name,
                            guest.row.name);

        if (r == 0)
                r = guest_job_log(&guest, wanted.found, &fd, err);

        if (r == 0) {
                wanted.number = wanted.found;
                r = logs_copy(&guests, &guest, &wanted, fd, option_get_flag(&call->options, &logs_rows[LOGS_FOLLOW]),
                              option_get_flag(&call->options, &logs_rows[LOGS_RAW]), err);
        }

        return exit_of_guest(r, err);
}

const struct verb verb_guest_logs = {
        .name = "logs",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME [NUMBER]",
        .help = "show what a job wrote; the last one without a number",
        .tables = { &logs_table },
        .min_words = 1,
        .max_words = 2,
        .run = run_logs,
};
