/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey run`: one command in one sandbox, from options to exit status. The supervisor's life: see run.c.
 */
#include "base/buf.h"
#include "base/err.h"
#include "ipc/run_end.h"
#include "run/run_request.h"

#include <stdbool.h>

/* Fills *e for every end but RUN_ENDED. */
enum run_end run_command(const struct run_request *request, int *ret_status, struct err *err);

/* What run_command() would set up, without setting it up: text or one JSON object. */
enum run_end run_show_plan(const struct run_request *request, bool json, struct buf *out, struct err *err);
