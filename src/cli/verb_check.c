/* SPDX-License-Identifier: Apache-2.0 */
/* bailey check: what the classifier says about a command, without running anything. */
#include "verbs/command_check.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const struct option rows[] = {
        { .flag = "args", .type = OPTION_FLAG, .help = "the words are a command that is run without a shell" },
        { .flag = "json", .type = OPTION_FLAG, .help = "print a JSON object" },
};
static const struct option_table table = { "Question and output", rows, sizeof rows / sizeof rows[0] };

static void print_line(const char *label, const char *text) {
        cleanup(buf_done) struct buf out = BUF(16384);
        if (text && *text && escape_text(&out, str_of(text), 2048) == 0)
                printf("  %-8s %.*s\n", label, STR_FMT(buf_str(&out)));
}

static void print_text(const struct check_verdict *verdict, bool color) {
        static const char *const means[] = {
                [CHECK_ALLOW] = "runs in the sandbox without a question",
                [CHECK_SANDBOXED] = "runs in the sandbox without a question",
                [CHECK_ESCALATED] = "needs the approval of a person",
                [CHECK_FORBIDDEN] = "is never run",
        };
        const char *paint;
        if (!color)
                paint = "";
        else if (verdict->decision < CHECK_ESCALATED)
                paint = "\033[32m";
        else if (verdict->decision == CHECK_ESCALATED)
                paint = "\033[33m";
        else
                paint = "\033[31m";

        printf("%s%s%s: it %s\n", paint, verdict->name, color ? "\033[0m" : "", means[verdict->decision]);
        print_line("segment", verdict->segment);
        print_line("rule", verdict->rule);
        print_line("why", verdict->reason);
        print_line("detail", verdict->detail);
}

static int print_json(const struct check_verdict *verdict, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "decision", verdict->name);
        emit_put_text(&j, "rule", *verdict->rule ? verdict->rule : NULL);
        emit_put_text(&j, "reason", verdict->reason);
        emit_put_text(&j, "segment", verdict->segment);
        emit_put_text(&j, "detail", verdict->detail);
        emit_close(&j);
        return inspect_write_json(&j, &out, err);
}

static int check_run(const struct call *call, struct err *err) {
        static const int codes[] = { [CHECK_ALLOW] = EXIT_OK,
                                     [CHECK_SANDBOXED] = EXIT_OK,
                                     [CHECK_ESCALATED] = EXIT_ESCALATED,
                                     [CHECK_FORBIDDEN] = EXIT_FORBIDDEN };
        cleanup(check_verdict_done) struct check_verdict verdict = { 0 };
        struct check_question question = { .words = call->argv,
                                           .n = (size_t)call->argc,
                                           .args = option_get_flag(&call->options, &rows[0]) };
        if (!question.args && question.n > 1) {
                err_set(err, EINVAL,
                        "more than one word: quote the command, or give its words with --args -- COMMAND...");
                return EXIT_USAGE;
        }

        if (check_command(&call->options, &question, &verdict, err) < 0)
                return exit_of_error(err);

        int status = EXIT_OK;

        if (option_get_flag(&call->options, &rows[1]))
                status = print_json(&verdict, err);
        else
                print_text(&verdict, frame_color(call, STDOUT_FILENO));

        return status == EXIT_OK ? codes[verdict.decision] : status;
}

const struct verb verb_check = {
        .name = "check",
        .group = GROUP_POLICY,
        .synopsis = "[OPTIONS] 'COMMAND' | --args -- COMMAND [ARG...]",
        .help = "say whether a command is allowed, asked about or forbidden",
        .about = "Reads a shell command as a shell would and judges each part of it: pipelines, branches, functions, "
                 "substitutions, redirections, and what programs such as env, sudo, xargs, sh -c and find -exec would "
                 "start. The worst part decides. Nothing is run and no file that the command names is opened.\n\n"
                 "allow: known to be harmless. sandboxed: no rule is about it. escalated: a person is asked first. "
                 "forbidden: never. What cannot be understood is escalated. Whatever is permitted runs in the sandbox."
                 "\n\nThe policy's own rules (commands:) come before the built-in ones; they can allow what would be "
                 "escalated, and nothing allows what is forbidden.\n\n"
                 "Exit code 0: allow or sandboxed; 10: escalated; 20: forbidden.",
        .tables = { &table, &policy_table_general },
        .min_words = 1,
        .max_words = -1,
        .run = check_run,
};
