/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Running a command without a sandbox, where the machine has none and the config says that this is better than nothing.
 */
#include "api/exec.h"

int plain_run(bailey_manager *m, const struct state *s, const struct exec_call *call, bailey_result *result,
              struct bailey_error *error);
