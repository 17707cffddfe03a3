/* SPDX-License-Identifier: Apache-2.0 */
/* bailey policy check, show, test: a policy is read, explained and questioned; nothing is run. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { OUTPUT_MAX = 256 << 20 };

static const struct option json_row[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print JSON" },
};
static const struct option_table json_table = { "Output", json_row, 1 };

static bool wants_json(const struct call *call, const struct option *row) {
        return option_get_flag(&call->options, row);
}

/* --- check --- */

static int print_check_json(const char *name, const struct inspector *inspector, const struct err *failure,
                            struct err *err) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "file", name);
        emit_put_bool(&j, "valid", inspector != NULL);

        if (inspector) {
                struct inspect_counts counts = inspect_count(inspector);

                emit_put_text(&j, "mode", counts.mode);
                emit_put_number(&j, "network_rules", counts.network_rules);
                emit_put_number(&j, "path_rules", counts.path_rules);
        } else
                emit_put_text(&j, "error", err_text(failure));

        emit_close(&j);
        return inspect_write_json(&j, &out, err);
}

static void print_idle(void *arg, const char *text) {
        (void)arg;
        log_notice("%s", text);
}

static int run_check(const struct call *call, struct err *err) {
        cleanup(inspector_freep) struct inspector *i = NULL;
        const char *file = call->argc > 0 ? call->argv[0] : NULL;
        struct err failure = { 0 };
        int status = inspect_open(call, file, &i, &failure);

        if (wants_json(call, &json_row[0])) {
                int written = print_check_json(file, i, &failure, err);
                return written == EXIT_OK ? status : written;
        }

        if (status != EXIT_OK) {
                *err = failure;
                return status;
        }

        struct inspect_counts counts = inspect_count(i);
        inspect_idle(i, print_idle, NULL);
        printf("%s: valid (mode %s, %zu rule%s for hosts, %zu for files)\n", text_or(file, "policy"), counts.mode,
               counts.network_rules, counts.network_rules == 1 ? "" : "s", counts.path_rules);

        return EXIT_OK;
}

static const struct verb verb_check = {
        .name = "check",
        .synopsis = "[OPTIONS] [FILE]",
        .help = "say whether a policy is valid",
        .about = "Reads FILE alone and says whether it is a valid policy. The first mistake is shown as "
                 "file:line:column with what "
                 "is wrong and what may have been meant. Without FILE the policy that \"bailey run\" would use here is "
                 "checked: "
                 "all files, variables and options together.\n\nExit code 0: valid; 3: not valid; 5: the workspace's "
                 "file asks "
                 "for more than was granted and is not trusted.",
        .tables = { &json_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .max_words = 1,
        .run = run_check,
};

/* --- show --- */

enum { SHOW_JSON, SHOW_EXPAND, SHOW_ALL, SHOW_OPTIONS };
static const struct option show_rows[] = {
        [SHOW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print JSON" },
        [SHOW_EXPAND] = { .flag = "expand",
                          .type = OPTION_FLAG,
                          .help = "show what the groups stand for, mirrors included" },
        [SHOW_ALL] = { .flag = "all", .type = OPTION_FLAG, .help = "show defaults too" },
};
static const struct option_table show_table = { "Output", show_rows, SHOW_OPTIONS };

static int run_show(const struct call *call, struct err *err) {
        cleanup(inspector_freep) struct inspector *i = NULL;
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int status = inspect_open(call, NULL, &i, err);
        if (status != EXIT_OK)
                return status;

        bool json = option_get_flag(&call->options, &show_rows[SHOW_JSON]);
        unsigned flags = json ? INSPECT_JSON : 0;
        if (option_get_flag(&call->options, &show_rows[SHOW_EXPAND]))
                flags |= INSPECT_EXPAND;
        if (option_get_flag(&call->options, &show_rows[SHOW_ALL]))
                flags |= INSPECT_DEFAULTS;

        if (inspect_show(i, flags, &out) < 0 || (json && buf_add_char(&out, '\n') < 0)) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        return inspect_write(&out, err);
}

static const struct verb verb_show = {
        .name = "show",
        .synopsis = "[OPTIONS]",
        .help = "print the merged policy with the origin of every value",
        .about = "Prints the policy that \"bailey run\" would use here with the same options. The output is a policy "
                 "file again; "
                 "behind each value stands where it came from: a file with line and column, a variable, an option, a "
                 "preset or "
                 "profile, or the built-in default. Passwords and variables that are named like secrets are not shown.",
        .tables = { &show_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .run = run_show,
};

/* --- test --- */

enum { TEST_JSON, TEST_METHOD, TEST_PATH, TEST_ADDRESS, TEST_OPTIONS };
static const struct option test_rows[] = {
        [TEST_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object a line" },
        [TEST_METHOD] = { .flag = "method",
                          .type = OPTION_STRING,
                          .metavar = "METHOD",
                          .help = "judge a visible request with this method" },
        [TEST_PATH] = { .flag = "path",
                        .type = OPTION_STRING,
                        .metavar = "PATH",
                        .help = "judge a visible request for this path" },
        [TEST_ADDRESS] = { .flag = "address",
                           .type = OPTION_STRING,
                           .metavar = "ADDR",
                           .help = "judge this address too, as one that the name resolves to" },
};
static const struct option_table test_table = { "Test", test_rows, TEST_OPTIONS };

static int print_test(const struct call *call, const char *asked, const struct inspect_verdict *verdict,
                      struct err *err) {
        if (!option_get_flag(&call->options, &test_rows[TEST_JSON])) {
                inspect_print(asked, verdict, frame_color(call, STDOUT_FILENO));
                return EXIT_OK;
        }

        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);
        inspect_emit(&j, asked, verdict);
        return inspect_write_json(&j, &out, err);
}

static int test_judge(const struct inspector *inspector, const struct inspect_question *question,
                      struct inspect_verdict *ret, struct err *err) {
        if (inspect_is_repository(inspector, question->target))
                return inspect_repository(inspector, question->target, ret, err);
        if (inspect_is_page(question->target))
                return inspect_page(inspector, question->target, ret, err);

        return inspect_host(inspector, question, ret, err);
}

static int run_test(const struct call *call, struct err *err) {
        cleanup(inspector_freep) struct inspector *i = NULL;
        int status = inspect_open(call, NULL, &i, err);
        bool all = true;

        for (int n = 0; status == EXIT_OK && n < call->argc; n++) {
                cleanup(inspect_verdict_done) struct inspect_verdict v = { 0 };
                struct inspect_question q = { .target = call->argv[n],
                                              .method = option_get(&call->options, &test_rows[TEST_METHOD]),
                                              .path = option_get(&call->options, &test_rows[TEST_PATH]),
                                              .address = option_get(&call->options, &test_rows[TEST_ADDRESS]) };

                if (inspect_is_tool(i, call->argv[n])) {
                        status = inspect_tool_call(call, call->argv[n],
                                                   option_get_flag(&call->options, &test_rows[TEST_JSON]), err);
                        all = all && status == EXIT_OK;
                        if (status == EXIT_NO)
                                status = EXIT_OK;
                        continue;
                }

                if (test_judge(i, &q, &v, err) < 0)
                        return EXIT_USAGE;

                all = all && v.allowed;
                status = print_test(call, call->argv[n], &v, err);
        }

        if (status != EXIT_OK)
                return status;

        if (all)
                return EXIT_OK;

        return EXIT_NO;
}

static const struct verb verb_test = {
        .name = "test",
        .synopsis = "[OPTIONS] HOST[:PORT] | REPO[=REF] | URL | 'TOOL ARG...' ...",
        .help = "ask for a verdict, with its reason and rule",
        .about = "Says what the policy decides about each host, repository, page or call of a bridged tool, why, which "
                 "rule decided and where that rule stands. "
                 "Nothing is "
                 "resolved or connected to. Without a port, 443 is meant.\n\nExit code 0: all are allowed; 1: at least "
                 "one is not.",
        .tables = { &test_table, &policy_table_general, &policy_table_network },
        .min_words = 1,
        .max_words = -1,
        .run = run_test,
};

/* --- groups --- */

static int run_groups(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        bool json = wants_json(call, &json_row[0]);
        if (inspect_list_groups(&out, json) < 0 || (json && buf_add_char(&out, '\n') < 0)) {
                err_memory(err);
                return EXIT_SYSTEM;
        }
        return inspect_write(&out, err);
}

static const struct verb verb_groups = {
        .name = "groups",
        .synopsis = "[--json]",
        .help = "list the groups and profiles, and what they stand for",
        .about = "A group is a name for hosts that belong together, written \"@github\" in a policy or after --allow. "
                 "A profile "
                 "(--profile) adds the hosts, paths and variables that an agent needs.",
        .tables = { &json_table },
        .run = run_groups,
};

static const struct verb *const subs[] = { &verb_check, &verb_show, &verb_test, &verb_groups, NULL };

const struct verb verb_policy = {
        .name = "policy",
        .group = GROUP_POLICY,
        .synopsis = "check|show|test|groups ...",
        .help = "validate a policy, print it with origins, ask it for a verdict",
        .subs = subs,
};
