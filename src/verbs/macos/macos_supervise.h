/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One job for libbailey on macOS: as verbs/supervise_job.h. There is no gateway by itself, and nobody to ask but the
 * program: a command that needs a person's approval is recorded and refused. */
#include "base/err.h"
#include "ipc/run_end.h"

enum run_end macos_supervise(int *ret_status, struct err *err);
