/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_plan.h"

#include <errno.h>

const char plan_system_here[] = "macos";

/* It is made of what a Linux machine has. */
int plan_run_here(const struct call *call, bool json, struct err *err) {
        (void)call;
        (void)json;
        err_set(err, ENOTSUP, "a plan for Linux can be made on Linux only");
        return EXIT_UNAVAILABLE;
}
