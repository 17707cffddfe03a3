/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What Bailey itself reads and runs, outside, is not for the sandbox to write. */
#include "plan/build.h"
#include "run/run_request.h"

/* Adds to the host's paths whatever of it lies where the sandbox may write: it is closed for writing there, and what is
 * not there yet cannot stay. Without namespaces nothing can be closed inside a writable directory: then Bailey's own
 * programs must not be in one (-EPERM). */
int run_own(const struct policy *policy, const struct run_request *request, const struct path_rules *rules,
            bool degraded, struct plan_host *host, struct err *err);
