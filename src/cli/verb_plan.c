/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_plan.h"
#include "base/cleanup.h"
#include "verbs/macos/macos_plan.h"
#include "verbs/policy_options.h"

#include <stdio.h>

enum { PLAN_FOR, PLAN_JSON, PLAN_OPTIONS };
static const char *const systems[] = { "linux", "macos", NULL };
static const struct option rows[] = {
        [PLAN_FOR] = { .flag = "for",
                       .type = OPTION_CHOICE,
                       .metavar = "SYSTEM",
                       .choices = systems,
                       .fallback = plan_system_here,
                       .help = "the system whose plan is shown; macos: a Seatbelt profile, never yet run on a Mac" },
        [PLAN_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
};
static const struct option_table table = { "Output", rows, PLAN_OPTIONS };

static int run_macos(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(PLAN_OUTPUT_MAX);
        const struct macos_plan_request request = { .options = &call->options,
                                                    .argv = call->argv,
                                                    .json = option_get_flag(&call->options, &rows[PLAN_JSON]) };

        switch (macos_plan_show(&request, &out, err)) {
        case MACOS_PLAN_SHOWN:
                fwrite(out.p, 1, out.n, stdout);
                return EXIT_OK;
        case MACOS_PLAN_BAD_POLICY:
                return EXIT_CONFIG;
        case MACOS_PLAN_REFUSED:
                return EXIT_REFUSED;
        default:
                return EXIT_SYSTEM;
        }
}

static int plan_run(const struct call *call, struct err *err) {
        const char *wanted = option_get(&call->options, &rows[PLAN_FOR]);

        if (strcmp(text_or(wanted, plan_system_here), "macos") == 0)
                return run_macos(call, err);

        return plan_run_here(call, option_get_flag(&call->options, &rows[PLAN_JSON]), err);
}

const struct verb verb_plan = {
        .name = "plan",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "print what run would set up; run nothing",
        .about = "Every step between starting and the program's first instruction, in order: mounts, Landlock rules, "
                 "network, limits, environment.\n\nWith --for macos: the Seatbelt profile that the same policy gives "
                 "on a Mac, with a comment on each rule. It is generated and checked on Linux and was never yet run "
                 "on a Mac; see docs/macos.md.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = plan_run,
};
