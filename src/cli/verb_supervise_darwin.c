/* SPDX-License-Identifier: Apache-2.0 */
/* bailey supervise: a job for libbailey. */
#include "cli/verb.h"
#include "verbs/macos/macos_supervise.h"

static int supervise_run(const struct call *call, struct err *err) {
        int status = 0;

        (void)call;
        switch (macos_supervise(&status, err)) {
        case RUN_ENDED:
                err_clear(err);
                return status;
        case RUN_TIMED_OUT: /* the caller set the limit, and the status tells it; standard error is the command's */
                err_clear(err);
                return EXIT_PASSING + EXIT_TIMEOUT;
        case RUN_CANCELLED:
                return EXIT_TIMEOUT;
        case RUN_BAD_POLICY:
                return EXIT_CONFIG;
        case RUN_REFUSED:
                return EXIT_REFUSED;
        case RUN_UNAVAILABLE:
                return EXIT_UNAVAILABLE;
        default:
                return EXIT_SYSTEM;
        }
}

const struct verb verb_supervise = {
        .name = "supervise",
        .group = GROUP_RUN,
        .flags = VERB_HIDDEN | VERB_PASSES_STATUS,
        .synopsis = "",
        .help = "do one job for libbailey",
        .max_words = 0,
        .run = supervise_run,
};
