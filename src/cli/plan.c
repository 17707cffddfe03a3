/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cli/verb.h"
#include "run/run.h"
#include "verbs/policy_options.h"

#include <stdio.h>

enum { PLAN_JSON, PLAN_OPTIONS };
static const struct option rows[] = {
        [PLAN_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
};
static const struct option_table table = { "Output", rows, PLAN_OPTIONS };

enum { OUTPUT_MAX = 16 << 20 };

static int run(const struct call *call, struct err *e) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        struct run_request request = { .options = &call->options, .argv = call->argv };
        switch (run_show_plan(&request, option_get_flag(&call->options, &rows[PLAN_JSON]), &out, e)) {
        case RUN_ENDED:
                fwrite(out.p, 1, out.n, stdout);
                return EXIT_OK;
        case RUN_BAD_POLICY:
                return EXIT_CONFIG;
        case RUN_REFUSED:
                return EXIT_REFUSED;
        default:
                return EXIT_SYSTEM;
        }
}

const struct verb verb_plan = {
        .name = "plan",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "print what run would set up; run nothing",
        .about = "Every step between starting and the program's first instruction, in order: mounts, Landlock rules, "
                 "network, limits, environment.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = run,
};
