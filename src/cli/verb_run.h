/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "run/run.h"

/* What the verbs that run a command exit with. */
int run_exit_code(enum run_end end, int status);
