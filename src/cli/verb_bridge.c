/* SPDX-License-Identifier: Apache-2.0 */
/* bailey bridge ls, show, check: tools of the host that a sandbox may call. */
#include "base/cleanup.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"
#include "verbs/bridges.h"
#include "verbs/policy_options.h"

#include <errno.h>

enum { OUTPUT_MAX = 4 << 20 };

static const struct option json_row[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print JSON" },
};
static const struct option_table json_table = { "Output", json_row, 1 };

static int status_of(int r, const struct err *err) {
        if (r == -ENOENT)
                return EXIT_UNAVAILABLE;
        if (r != -ENOMEM)
                return exit_of_error(err);

        return EXIT_SYSTEM;
}

static int run_ls(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int r = bridges_list(option_get_flag(&call->options, &json_row[0]), &out, err);

        if (r < 0)
                return status_of(r, err);

        return inspect_write(&out, err);
}

static int run_show(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int r = bridges_show(&call->options, call->argv[0], &out, err);

        if (r < 0)
                return status_of(r, err);

        return inspect_write(&out, err);
}

static int run_check(const struct call *call, struct err *err) {
        static const int codes[] = { [BRIDGE_RUNS] = EXIT_OK, [BRIDGE_INSIDE] = EXIT_OK, [BRIDGE_REFUSED] = EXIT_NO };
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        enum bridge_outcome outcome = BRIDGE_REFUSED;
        int r = bridges_check(&call->options, call->argv[0], call->argv + 1, (size_t)call->argc - 1,
                              option_get_flag(&call->options, &json_row[0]), &outcome, &out, err);
        int status = r < 0 ? status_of(r, err) : inspect_write(&out, err);

        return status == EXIT_OK ? codes[outcome] : status;
}

static const struct verb verb_ls = {
        .name = "ls",
        .synopsis = "[--json]",
        .help = "list the tools that are built in, with their verbs",
        .tables = { &json_table },
        .run = run_ls,
};

static const struct verb verb_show = {
        .name = "show",
        .synopsis = "[OPTIONS] TOOL",
        .help = "print one: what may be called, what is refused, and what it gets",
        .about = "Prints the tool as the policy has it; one that the policy does not open, as it is built in.",
        .tables = { &policy_table_general, &policy_table_network },
        .min_words = 1,
        .max_words = 1,
        .run = run_show,
};

static const struct verb verb_bridge_check = {
        .name = "check",
        .flags = VERB_COMMAND,
        .synopsis = "[OPTIONS] TOOL [ARG...]",
        .help = "say what would be run for this call, or why nothing would",
        .about = "Judges the call as a running sandbox would, and runs nothing. The first line is run: with the words "
                 "that the tool would get, ask: with the same where a person must agree first, inside: where the "
                 "program inside does it without any credential, or refused: with the reason.\n\nExit code 0: run, "
                 "ask or inside; 1: refused; 4: there is no such tool, or "
                 "the policy does not open it.",
        .tables = { &json_table, &policy_table_general, &policy_table_network },
        .min_words = 1,
        .max_words = -1,
        .run = run_check,
};

static const struct verb *const subs[] = { &verb_ls, &verb_show, &verb_bridge_check, NULL };

const struct verb verb_bridge = {
        .name = "bridge",
        .group = GROUP_POLICY,
        .synopsis = "ls|show|check ...",
        .help = "tools of this host that a sandbox may call: list, print, try a call",
        .about = "A tool whose credential cannot be put into requests on their way (kubectl, aws, gcloud, docker) can "
                 "be bridged: inside, a program of its name hands the call out; it is judged by a table, and the tool "
                 "runs outside in a sandbox of its own, with its own credential. --bridge TOOL opens one for a run, an "
                 "entry under bridge in a policy for good.",
        .subs = subs,
};
