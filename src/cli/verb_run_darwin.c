/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"
#include "verbs/macos_run.h"
#include "verbs/policy_options.h"

static const struct option rows[] = {
        { .flag = "quiet", .letter = 'q', .type = OPTION_FLAG, .help = "do not look for denials in the system log" },
};
static const struct option_table table = { "This run", rows, 1 };

static int run_run(const struct call *call, struct err *err) {
        const struct macos_run_request request = { .options = &call->options,
                                                   .argv = call->argv,
                                                   .quiet = option_get_flag(&call->options, &rows[0]) };
        int code = EXIT_OK;

        switch (macos_run(&request, &code, err)) {
        case MACOS_RUN_ENDED:
                return code;
        case MACOS_RUN_BAD_POLICY:
                return EXIT_CONFIG;
        case MACOS_RUN_REFUSED:
                return EXIT_REFUSED;
        case MACOS_RUN_NOT_FOUND:
                return EXIT_NOT_FOUND;
        default:
                return EXIT_SYSTEM;
        }
}

const struct verb verb_run = {
        .name = "run",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "run a program under a Seatbelt profile, without a network",
        .about = "Never yet run on a Mac. The profile is the one that `bailey plan` prints, for this run's own "
                 "directories. There is no gateway on macOS yet, so a mode with a network is refused, and so is every "
                 "other setting that macOS cannot hold, by its name. Denials are taken from the system log, which "
                 "drops some, and printed; nothing else is on record. The home ends with the run.\n"
                 "The exit status is the program's.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = run_run,
};
