/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cli/verb_plan.h"
#include "run/run.h"

#include <stdio.h>

const char plan_system_here[] = "linux";

int plan_run_here(const struct call *call, bool json, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(PLAN_OUTPUT_MAX);
        struct run_request request = { .options = &call->options, .argv = call->argv };

        switch (run_show_plan(&request, json, &out, err)) {
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
