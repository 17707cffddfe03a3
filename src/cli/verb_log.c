/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/record/log_keep.h"
#include "verbs/record/log_view.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
        ROW_FOLLOW,
        ROW_DENIED,
        ROW_JSON,
        ROW_REQUESTS,
        ROW_RUN,
        ROW_SINCE,
        ROW_UNTIL,
        ROW_ALL,
        ROW_HOST,
        ROW_PATH,
        ROW_RULE,
        ROW_CREDENTIAL,
        ROW_LIMIT,
        LOG_ROWS
};
static const struct option rows[] = {
        [ROW_FOLLOW] = { .flag = "follow", .letter = 'f', .type = OPTION_FLAG, .help = "go on as the log grows" },
        [ROW_DENIED] = { .flag = "denied", .letter = 'd', .type = OPTION_FLAG, .help = "only what was refused" },
        [ROW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print the records as they are" },
        [ROW_REQUESTS] = { .flag = "requests",
                           .type = OPTION_FLAG,
                           .help = "only network requests, as JSON: timestamp, run_id, domain, path, method, allowed, "
                                   "whitelist_matched, status" },
        [ROW_RUN] = { .flag = "run",
                      .type = OPTION_STRING,
                      .metavar = "ID",
                      .help = "of this run, by its id or the beginning of it, or of the guest that runs, by its name" },
        [ROW_SINCE] = { .flag = "since",
                        .type = OPTION_STRING,
                        .metavar = "WHEN",
                        .help = "from this long ago (10m), or from this time (2026-11-15T03:00, UTC)" },
        [ROW_UNTIL] = { .flag = "until", .type = OPTION_STRING, .metavar = "WHEN", .help = "with --all: before then" },
        [ROW_ALL] = { .flag = "all", .letter = 'a', .type = OPTION_FLAG, .help = "search the logs of all runs" },
        [ROW_HOST] = { .flag = "host",
                       .type = OPTION_STRING,
                       .metavar = "HOST",
                       .help = "with --all: only this host; * stands for anything" },
        [ROW_PATH] = { .flag = "path",
                       .type = OPTION_STRING,
                       .metavar = "TEXT",
                       .help = "with --all: only paths and commands that contain this" },
        [ROW_RULE] = { .flag = "rule",
                       .type = OPTION_STRING,
                       .metavar = "RULE",
                       .help = "with --all: only what this rule decided; * stands for anything" },
        [ROW_CREDENTIAL] = { .flag = "credential",
                             .type = OPTION_STRING,
                             .metavar = "NAME",
                             .help = "with --all: only requests into which this credential was put" },
        [ROW_LIMIT] = { .flag = "limit",
                        .type = OPTION_INTEGER,
                        .metavar = "NUMBER",
                        .min = 1,
                        .max = 1000000,
                        .help = "with --all: the newest so many" },
};
static_assert(sizeof rows / sizeof *rows == LOG_ROWS, "one row each");
static const struct option_table table = { "Options", rows, LOG_ROWS };

enum { VERIFY_JSON, VERIFY_RUN, VERIFY_ROWS };
static const struct option verify_rows[] = {
        [VERIFY_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
        [VERIFY_RUN] = { .flag = "run",
                         .type = OPTION_STRING,
                         .metavar = "ID",
                         .help =
                             "of this run, by its id or the beginning of it, or of the guest that runs, by its name" },
};
static const struct option_table verify_table = { "Options", verify_rows, VERIFY_ROWS };

static int on_line(void *arg, struct str line) {
        bool at_once = *(const bool *)arg;
        if (fwrite(line.p, 1, line.n, stdout) != line.n || (at_once && fflush(stdout) != 0))
                return -EPIPE;
        return 0;
}

static int code_of(int r) {
        if (r == -EINVAL)
                return EXIT_USAGE;

        if (r == -ENOENT || r == -ENOTSUP)
                return EXIT_UNAVAILABLE;

        return EXIT_SYSTEM;
}

/* Options that only a search over all runs understands. */
static int check_all(const struct call *call, bool all, struct err *err) {
        static const unsigned char only[] = { ROW_UNTIL, ROW_HOST, ROW_PATH, ROW_RULE, ROW_CREDENTIAL, ROW_LIMIT };

        for (size_t i = 0; i < sizeof only && !all; i++)
                if (option_get(&call->options, &rows[only[i]]))
                        return err_set(err, EINVAL, "--%s is for searches over all runs: add --all",
                                       rows[only[i]].flag);

        if (all && option_get_flag(&call->options, &rows[ROW_FOLLOW]))
                return err_set(err, EINVAL, "--all does not follow; \"bailey events\" shows what all sandboxes do");
        if (all && call->argc)
                return err_set(err, EINVAL, "--all is about the logs of all runs, not about one file");

        return 0;
}

static int log_run(const struct call *call, struct err *err) {
        const struct option_values *values = &call->options;
        bool all = option_get_flag(values, &rows[ROW_ALL]);
        if (check_all(call, all, err) < 0)
                return EXIT_USAGE;

        bool follow = option_get_flag(values, &rows[ROW_FOLLOW]);
        const struct log_request request = {
                .file = call->argc ? call->argv[0] : NULL,
                .run = option_get(values, &rows[ROW_RUN]),
                .since = option_get(values, &rows[ROW_SINCE]),
                .follow = follow,
                .denied = option_get_flag(values, &rows[ROW_DENIED]),
                .json = option_get_flag(values, &rows[ROW_JSON]),
                .requests = option_get_flag(values, &rows[ROW_REQUESTS]),
                .all = all,
                .until = option_get(values, &rows[ROW_UNTIL]),
                .host = option_get(values, &rows[ROW_HOST]),
                .path = option_get(values, &rows[ROW_PATH]),
                .rule = option_get(values, &rows[ROW_RULE]),
                .credential = option_get(values, &rows[ROW_CREDENTIAL]),
                .limit = (unsigned)option_get_number(values, &rows[ROW_LIMIT]),
                .color = frame_color(call, STDOUT_FILENO),
                .on_line = on_line,
                .arg = &follow,
        };
        int r = all ? log_search(&request, err) : log_show(&request, err);

        if (r == 0 || (r == -EPIPE && !err->code))
                return EXIT_OK;

        return code_of(r);
}

static int run_verify(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(16384);
        const char *run_id = option_get(&call->options, &verify_rows[VERIFY_RUN]);
        bool json = option_get_flag(&call->options, &verify_rows[VERIFY_JSON]);
        int r = log_verify(call->argc ? call->argv[0] : NULL, run_id, json, &out, err);
        fwrite(text_or(out.p, ""), 1, out.n, stdout);
        if (r == 0)
                return EXIT_OK;

        if (r == -EBADMSG)
                return EXIT_NO;

        return code_of(r);
}

static const struct verb verb_log_verify = {
        .name = "verify",
        .group = GROUP_WATCH,
        .synopsis = "[FILE]",
        .help = "prove that an audit log is whole",
        .about =
            "Each record carries its number and the SHA-256 of the line before it. This reads the log with its rotated "
            "files "
            "and says that the chain is whole, or exactly where it breaks (exit code 1).\n"
            "The last record of a log whose writer is gone must be an end: without one the writer was killed or the "
            "newest "
            "records were cut off, and the log is not whole (exit code 1). While its writer lives, that cannot be "
            "told: "
            "keep a copy of the last line elsewhere to be certain.",
        .tables = { &verify_table },
        .max_words = 1,
        .run = run_verify,
};

enum { PRUNE_AGE, PRUNE_SIZE, PRUNE_DRY, PRUNE_JSON, PRUNE_ROWS };
static const struct option prune_rows[] = {
        [PRUNE_AGE] = { .flag = "max-age",
                        .type = OPTION_DURATION,
                        .metavar = "DURATION",
                        .help = "drop logs that are older than this (30d), instead of log.max_age; 0 for none" },
        [PRUNE_SIZE] = { .flag = "max-size",
                         .type = OPTION_SIZE,
                         .metavar = "SIZE",
                         .help = "drop the oldest until all together are no larger (1GiB), instead of log.max_size; 0 "
                                 "for no limit" },
        [PRUNE_DRY] = { .flag = "dry-run",
                        .letter = 'n',
                        .type = OPTION_FLAG,
                        .help = "only say what would be dropped" },
        [PRUNE_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
};
static const struct option_table prune_table = { "Options", prune_rows, PRUNE_ROWS };

static int run_prune(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        const struct option_values *values = &call->options;
        const struct log_keep_request request = { .has_max_age = option_get(values, &prune_rows[PRUNE_AGE]) != NULL,
                                                  .has_max_size = option_get(values, &prune_rows[PRUNE_SIZE]) != NULL,
                                                  .max_age_ns =
                                                      (uint64_t)option_get_number(values, &prune_rows[PRUNE_AGE]),
                                                  .max_bytes =
                                                      (uint64_t)option_get_number(values, &prune_rows[PRUNE_SIZE]),
                                                  .dry = option_get_flag(values, &prune_rows[PRUNE_DRY]),
                                                  .json = option_get_flag(values, &prune_rows[PRUNE_JSON]) };
        int r = log_keep(&request, &out, err);

        if (r >= 0 && out.n > 0)
                fwrite(out.p, 1, out.n, stdout);

        if (r == 0)
                return EXIT_OK;

        return code_of(r);
}

static const struct verb verb_log_prune = {
        .name = "prune",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS]",
        .help = "drop audit logs that are too old or too much",
        .about =
            "Logs of runs are dropped whole, the oldest first: those that are older than log.max_age (365d), and as "
            "many as it takes for all together to be no larger than log.max_size (4GiB). Runs do the same by "
            "themselves, "
            "about once an hour. A log that is being written stays, and so does the newest.\n"
            "What is dropped is on record: dropped.jsonl in the directory of the logs has the run, its times, the "
            "number "
            "of its records and the SHA-256 of the last one, and is a hash-chained log itself.",
        .tables = { &prune_table },
        .max_words = 0,
        .run = run_prune,
};
static const struct verb *const subs[] = { &verb_log_verify, &verb_log_prune, NULL };

const struct verb verb_log = {
        .name = "log",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] [FILE]",
        .help = "show what was tried, allowed and refused",
        .about = "One line per record of the audit log: of the latest run, of another one (--run), or of a FILE. "
                 "Times are local. \"bailey log verify\" proves that nothing was changed.\n"
                 "With --all it searches the logs of all runs, by host, path, rule, credential and time. An index "
                 "(index.db in the state directory) finds the records; it is made from the logs and can be removed at "
                 "any time.",
        .tables = { &table },
        .subs = subs,
        .max_words = 1,
        .run = log_run,
};
