/* SPDX-License-Identifier: Apache-2.0 */
/* bailey supervise: a job for libbailey. */
#include "verbs/supervise_job.h"

#include "cli/verb.h"
#include "cli/verb_run.h"

static int supervise_run(const struct call *call, struct err *err) {
        int status = 0;

        (void)call;
        enum run_end end = supervise_job(&status, err);
        if (end ==
            RUN_TIMED_OUT) { /* the caller set the limit, and the status tells it; standard error is the command's */
                err_clear(err);
                return EXIT_PASSING + EXIT_TIMEOUT;
        }

        return run_exit_code(end, status);
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
