/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Running a command without a sandbox, where the machine has none and the config says that this is better than nothing.
 */
#include "api/api_exec.h"
#include "api/child.h"

struct plain_call {
        const struct child_plan *plan; /* without a block */
        bailey_result *result;
        int stop[2]; /* readable: it is ended; -1: none */
        uint64_t timeout_ns;
};
/* Any process to its end, its output captured. *ret_errno (optional) as of child_start(). */
int plain_child(const struct plain_call *call, int *ret_errno, struct bailey_error *error);

int plain_run(bailey_manager *manager, const struct state *state, const struct exec_call *call, bailey_result *result,
              struct bailey_error *error);
