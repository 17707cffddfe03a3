/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/log_view.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_FOLLOW, ROW_DENIED, ROW_JSON, ROW_REQUESTS, ROW_RUN, ROW_SINCE, LOG_ROWS };
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
                      .help = "of this run, by its id or the beginning of it" },
        [ROW_SINCE] = { .flag = "since",
                        .type = OPTION_STRING,
                        .metavar = "WHEN",
                        .help = "from this long ago (10m), or from this time (2026-11-15T03:00, UTC)" },
};
static_assert(sizeof rows / sizeof *rows == LOG_ROWS, "one row each");
static const struct option_table table = { "Options", rows, LOG_ROWS };

enum { VERIFY_JSON, VERIFY_RUN, VERIFY_ROWS };
static const struct option verify_rows[] = {
        [VERIFY_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
        [VERIFY_RUN] = { .flag = "run",
                         .type = OPTION_STRING,
                         .metavar = "ID",
                         .help = "of this run, by its id or the beginning of it" },
};
static const struct option_table verify_table = { "Options", verify_rows, VERIFY_ROWS };

static int on_line(void *arg, struct str line) {
        bool at_once = *(const bool *)arg;
        if (fwrite(line.p, 1, line.n, stdout) != line.n || (at_once && fflush(stdout) != 0))
                return -EPIPE;
        return 0;
}

static int code_of(int r) {
        return r == -EINVAL ? EXIT_USAGE : r == -ENOENT ? EXIT_UNAVAILABLE : EXIT_SYSTEM;
}

static int run(const struct call *call, struct err *e) {
        const struct option_values *v = &call->options;
        bool follow = option_get_flag(v, &rows[ROW_FOLLOW]);
        const struct log_request q = {
                .file = call->argc ? call->argv[0] : NULL,
                .run = option_get(v, &rows[ROW_RUN]),
                .since = option_get(v, &rows[ROW_SINCE]),
                .follow = follow,
                .denied = option_get_flag(v, &rows[ROW_DENIED]),
                .json = option_get_flag(v, &rows[ROW_JSON]),
                .requests = option_get_flag(v, &rows[ROW_REQUESTS]),
                .color = frame_color(call, STDOUT_FILENO),
                .on_line = on_line,
                .arg = &follow,
        };
        int r = log_show(&q, e);
        return r == 0 || (r == -EPIPE && !e->code) ? EXIT_OK : code_of(r);
}

static int run_verify(const struct call *call, struct err *e) {
        cleanup(buf_done) struct buf out = BUF(16384);
        const char *run_id = option_get(&call->options, &verify_rows[VERIFY_RUN]);
        bool json = option_get_flag(&call->options, &verify_rows[VERIFY_JSON]);
        int r = log_verify(call->argc ? call->argv[0] : NULL, run_id, json, &out, e);
        fwrite(out.p ? out.p : "", 1, out.n, stdout);
        return r == 0 ? EXIT_OK : r == -EBADMSG ? EXIT_NO : code_of(r);
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
static const struct verb *const subs[] = { &verb_log_verify, NULL };

const struct verb verb_log = {
        .name = "log",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] [FILE]",
        .help = "show what was tried, allowed and refused",
        .about = "One line per record of the audit log: of the latest run, of another one (--run), or of a FILE. "
                 "Times are local. \"bailey log verify\" proves that nothing was changed.",
        .tables = { &table },
        .subs = subs,
        .max_words = 1,
        .run = run,
};
