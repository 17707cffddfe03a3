/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/record/report.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "cli/verb.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_OUTPUT, ROW_JSON, ROW_MARKDOWN, ROW_FILE, REPORT_OPTIONS };
static const struct option rows[] = {
        [ROW_OUTPUT] = { .flag = "output",
                         .letter = 'o',
                         .type = OPTION_PATH,
                         .metavar = "FILE",
                         .help = "write the report here, for you alone (mode 0600), instead of to standard output" },
        [ROW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "as one JSON object" },
        [ROW_MARKDOWN] = { .flag = "md", .type = OPTION_FLAG, .help = "as Markdown, which a terminal can show too" },
        [ROW_FILE] = { .flag = "file",
                       .type = OPTION_PATH,
                       .metavar = "LOG",
                       .help = "from this audit log instead of those in the state directory" },
};
static_assert(sizeof rows / sizeof *rows == REPORT_OPTIONS, "one row each");
static const struct option_table table = { "Options", rows, REPORT_OPTIONS };

static int report_code(int r) {
        switch (r) {
        case -EINVAL:
                return EXIT_USAGE;
        case -ENOENT:
                return EXIT_UNAVAILABLE;
        case -EBADMSG:
                return EXIT_NO;
        default:
                return EXIT_SYSTEM;
        }
}

static int report_run(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(REPORT_MAX);
        const struct option_values *options = &call->options;
        const char *output = option_get(options, &rows[ROW_OUTPUT]);
        bool json = option_get_flag(options, &rows[ROW_JSON]), markdown = option_get_flag(options, &rows[ROW_MARKDOWN]);
        struct report_request request = { .run = call->argc ? call->argv[0] : NULL,
                                          .file = option_get(options, &rows[ROW_FILE]) };
        int r;

        if (json && markdown) {
                err_set(err, EINVAL, "--json and --md are two forms: choose one");
                return EXIT_USAGE;
        }

        if (json)
                request.form = REPORT_JSON;
        else if (markdown)
                request.form = REPORT_MARKDOWN;

        if (request.form == REPORT_HTML && !output && isatty(STDOUT_FILENO)) {
                err_set(err, EINVAL, "the report is an HTML page: name a file with -o FILE, or read it here with --md");
                return EXIT_USAGE;
        }

        r = report_write(&request, &out, err);
        if (r < 0)
                return report_code(r);

        if (output) {
                r = path_replace_file(output, buf_str(&out), 0600, err);
                return r < 0 ? EXIT_SYSTEM : EXIT_OK;
        }

        fwrite(out.p, 1, out.n, stdout);
        return EXIT_OK;
}

const struct verb verb_report = {
        .name = "report",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] [RUN]",
        .help = "show what one run did, as a page that needs nothing else",
        .about =
            "What the run asked for, what was allowed and refused, which commands were judged, which credentials went "
            "where, who answered what, and what changed: of the latest run, or of RUN (its id or the beginning of "
            "it). "
            "The page is one HTML file without scripts and without requests to anywhere.\n"
            "Everything in it comes from the audit log. The report says whether that log is whole and names the "
            "SHA-256 "
            "of its last record; \"bailey log verify\" prints the same digest, so that whoever has the log can check "
            "the "
            "report. Text that the run chose (hosts, paths, commands) is shown as text in every form.",
        .tables = { &table },
        .max_words = 1,
        .run = report_run,
};
