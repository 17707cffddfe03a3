/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"
#include "verbs/macos/macos_run.h"
#include "verbs/policy_options.h"

static const struct option rows[] = {
        { .flag = "quiet",
          .letter = 'q',
          .type = OPTION_FLAG,
          .help = "do not look for denials in the system log, and print no refusal" },
        { .flag = "hosts",
          .type = OPTION_PATH,
          .metavar = "FILE",
          .help = "names that the gateway knows without asking, as in /etc/hosts" },
};
static const struct option_table table = { "This run", rows, 2 };

static int run_run(const struct call *call, struct err *err) {
        const struct macos_run_request request = { .options = &call->options,
                                                   .argv = call->argv,
                                                   .hosts_file = option_get(&call->options, &rows[1]),
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
        case MACOS_RUN_TIMED_OUT:
                return EXIT_TIMEOUT;
        default:
                return EXIT_SYSTEM;
        }
}

const struct verb verb_run = {
        .name = "run",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "run a program under a Seatbelt profile",
        .about =
            "Never yet run on a Mac. The profile is the one that `bailey plan` prints, for this run's own "
            "directories. Programs reach the network by the proxy variables, through a gateway on loopback that wants "
            "this run's secret, or not at all. TLS is opened where a credential or a rule about requests needs "
            "it, for programs that read the certificate variables. Every setting that macOS cannot hold is refused by "
            "its name. Connections are on record; "
            "denials of files are taken from the system log, which drops some.\n"
            "The exit status is the program's.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = run_run,
};
