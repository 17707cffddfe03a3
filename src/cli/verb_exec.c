/* SPDX-License-Identifier: Apache-2.0 */
/* bailey exec: classify, ask, run in the sandbox, capture. */
#include "verbs/command_exec.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/err_hint.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"
#include "cli/verb_run.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

enum { ROW_ARGS, ROW_JSON, ROW_APPROVED, ROW_SHELL, ROW_OUTPUT_LIMIT, ROW_HOSTS, ROW_QUIET, ROW_DIE, EXEC_ROWS };
static const struct option rows[] = {
        [ROW_ARGS] = { .flag = "args",
                       .type = OPTION_FLAG,
                       .help = "the words are a command that is run without a shell" },
        [ROW_JSON] = { .flag = "json",
                       .type = OPTION_FLAG,
                       .help = "capture the output and print one JSON object with the result" },
        [ROW_APPROVED] = { .flag = "approved",
                           .type = OPTION_FLAG,
                           .help =
                               "you have approved the command: nobody is asked; what is forbidden stays forbidden" },
        [ROW_SHELL] = { .flag = "shell",
                        .type = OPTION_PATH,
                        .metavar = "PATH",
                        .fallback = "/bin/sh",
                        .help = "the shell that reads the command" },
        [ROW_OUTPUT_LIMIT] = { .flag = "output-limit",
                               .type = OPTION_SIZE,
                               .metavar = "SIZE",
                               .min = 0,
                               .max = 256 << 20,
                               .fallback = "10000000",
                               .help = "with --json: how much of each output is kept" },
        [ROW_HOSTS] = { .flag = "hosts",
                        .type = OPTION_PATH,
                        .metavar = "FILE",
                        .help = "names that the gateway knows without asking, as in /etc/hosts" },
        [ROW_QUIET] = { .flag = "quiet",
                        .letter = 'q',
                        .type = OPTION_FLAG,
                        .help = "no summary of refusals at the end" },
        [ROW_DIE] = { .flag = "die-with-parent",
                      .type = OPTION_FLAG,
                      .help = "end when the program that started this one has ended, also by a crash" },
};
static_assert(sizeof rows / sizeof *rows == EXEC_ROWS, "one row each");
static const struct option_table table = { "This command", rows, EXEC_ROWS };

static void emit_violations(struct emit *json, const bailey_result *result) {
        emit_key(json, "violations");
        emit_open(json, '[');

        for (size_t i = 0; result && i < bailey_result_violations(result); i++) {
                const struct bailey_violation *violation = bailey_result_violation(result, i);

                emit_open(json, '{');
                emit_put_text(json, "operation", violation->operation);
                emit_put_text(json, "target", violation->target);
                emit_put_text(json, "rule", *violation->rule ? violation->rule : NULL);
                emit_put_text(json, "process", *violation->process ? violation->process : NULL);
                emit_put_text(json, "detail", violation->detail);
                emit_put_number(json, "count", violation->count);
                emit_close(json);
        }

        emit_close(json);
}

static void emit_result(struct emit *json, const bailey_result *result) {
        size_t n_out, n_err;
        const char *out = bailey_result_stdout(result, &n_out), *err = bailey_result_stderr(result, &n_err);
        int code = bailey_result_exit_code(result), signal = bailey_result_signal(result);

        emit_key(json, "exit_code");

        if (code < 0)
                emit_null(json);
        else
                emit_number(json, (uint64_t)code);

        emit_key(json, "signal");

        if (signal)
                emit_number(json, (uint64_t)signal);
        else
                emit_null(json);

        emit_put_string(json, "stdout", str_n(out, n_out));
        emit_put_string(json, "stderr", str_n(err, n_err));
        emit_put_bool(json, "truncated", bailey_result_truncated(result));
        emit_put_number(json, "duration_ms", bailey_result_duration_ns(result) / 1000000);
        emit_put_bool(json, "sandboxed", bailey_result_sandboxed(result));
}

/* A stable word for programs: what became of it. */
static const char *outcome_name(const struct exec_outcome *outcome, const struct err *err) {
        static const char *const ends[] = {
                [RUN_ENDED] = "ended",
                [RUN_BAD_POLICY] = "config-invalid",
                [RUN_REFUSED] = "config-invalid",
                [RUN_UNAVAILABLE] = "unsupported-platform",
                [RUN_TIMED_OUT] = "timeout",
                [RUN_CANCELLED] = "cancelled",
                [RUN_FAILED] = "system",
        };

        switch (outcome->stage) {
        case EXEC_NOT_CHECKED:
                return err->kind == ERR_SYSTEM ? "system" : "config-invalid";
        case EXEC_FORBIDDEN:
                return "forbidden-command";
        case EXEC_NOT_APPROVED:
                return "escalated-command";
        default:
                return ends[outcome->end];
        }
}

static int print_json(const struct exec_outcome *outcome, struct err *err) {
        cleanup(buf_done) struct buf out = BUF((size_t)4 << 30);
        const struct check_verdict *verdict = &outcome->verdict;
        bool ended = outcome->stage == EXEC_RAN && outcome->end == RUN_ENDED && err->code == 0;
        struct emit j = emit_to(&out);
        char whole[2 * ERR_TEXT_MAX];

        snprintf(whole, sizeof whole, "%s%s", err_text(err), err_hint(err));
        emit_open(&j, '{');
        emit_put_text(&j, "outcome", outcome_name(outcome, err));
        emit_put_text(&j, "error", ended ? NULL : whole);

        if (outcome->stage != EXEC_NOT_CHECKED) {
                emit_put_text(&j, "decision", verdict->name);
                emit_put_text(&j, "rule", *verdict->rule ? verdict->rule : NULL);
                emit_put_text(&j, "reason", verdict->reason);
                emit_put_text(&j, "segment", verdict->segment);
        }

        if (ended || (outcome->stage == EXEC_RAN && outcome->end == RUN_TIMED_OUT && outcome->result))
                emit_result(&j, outcome->result); /* as far as it came */

        emit_violations(&j, outcome->result);
        emit_close(&j);
        struct err why = { 0 };

        if (emit_status(&j) < 0 || buf_add_char(&out, '\n') < 0)
                return err_set(err, ENOMEM, "out of memory for the result");

        if (inspect_write(&out, &why) != EXIT_OK)
                return err_set(err, EIO, "%s", err_text(&why));

        return 0;
}

static int exit_of(const struct exec_outcome *outcome, const struct err *err) {
        switch (outcome->stage) {
        case EXEC_NOT_CHECKED:
                return exit_of_error(err);
        case EXEC_FORBIDDEN:
                return EXIT_FORBIDDEN;
        case EXEC_NOT_APPROVED:
                return EXIT_ESCALATED;
        default:
                return run_exit_code(outcome->end, outcome->status);
        }
}

static int run_exec(const struct call *call, struct err *err) {
        const struct option_values *values = &call->options;
        cleanup(exec_outcome_done) struct exec_outcome outcome = { 0 };
        bool json = option_get_flag(values, &rows[ROW_JSON]);
        const struct exec_request request = {
                .options = values,
                .question = { call->argv, (size_t)call->argc, option_get_flag(values, &rows[ROW_ARGS]) },
                .shell = option_get(values, &rows[ROW_SHELL]),
                .hosts_file = option_get(values, &rows[ROW_HOSTS]),
                .approved = option_get_flag(values, &rows[ROW_APPROVED]),
                .quiet = option_get_flag(values, &rows[ROW_QUIET]),
                .capture = json,
                .output_limit = option_get_number(values, &rows[ROW_OUTPUT_LIMIT]),
        };
        if (!request.question.args && request.question.n > 1) {
                err_set(err, EINVAL,
                        "more than one word: quote the command, or give its words with --args -- COMMAND...");
                return EXIT_USAGE;
        }

        if (option_get_flag(values, &rows[ROW_DIE]) && frame_die_with_parent(SIGKILL, err) < 0)
                return EXIT_SYSTEM;

        exec_command(&request, &outcome, err);
        if (json && print_json(&outcome, err) < 0)
                return EXIT_SYSTEM;

        return exit_of(&outcome, err);
}

const struct verb verb_exec = {
        .name = "exec",
        .group = GROUP_RUN,
        .flags = VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] 'COMMAND' | --args -- COMMAND [ARG...]",
        .help = "judge a command, ask where needed, and run it in the sandbox",
        .about =
            "Judges the command as \"bailey check\" does. What is allowed, or what no rule is about, runs at once. "
            "What is "
            "escalated is asked about: on the terminal; with --ask control, or where the policy says so, also by "
            "\"bailey pending\" and \"bailey allow --command\", approval.command and approval.webhook. Without "
            "anybody to ask, without an answer in time (--ask-timeout) and with --ask never it does not run. What is "
            "forbidden does not run. Every command is in the audit log, also those that did not run.\n\n"
            "The command runs in a sandbox as of \"bailey run\", through the shell or, with --args, directly. Its "
            "output "
            "passes through and the exit status is the command's. With --json the output is captured, up to a limit, "
            "and "
            "one object tells what came of it: outcome (ended, forbidden-command, escalated-command, timeout, "
            "unsupported-platform, config-invalid, system), error, decision, rule, reason, segment, exit_code, signal, "
            "stdout, stderr (bytes that are no UTF-8 are replaced), truncated, duration_ms, sandboxed and "
            "violations.\n\n"
            "Exit code 10: it needs an approval and has none; 20: it is forbidden.",
        .tables = { &table, &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits },
        .min_words = 1,
        .max_words = -1,
        .run = run_exec,
};
