/* SPDX-License-Identifier: Apache-2.0 */
/* The index of all logs is a database, which the programs for macOS do not have. */
#include "verbs/record/log_view.h"

#include <errno.h>

int log_search(const struct log_request *request, struct err *err) {
        (void)request;
        return err_set(err, ENOTSUP, "--all: logs are searched together on Linux only; name a run (--run) or a file");
}
