/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One job for libbailey (ipc/supervise_messages.h): a command in a sandbox or a gateway, described by a block of text
 * instead of files and options, for a program instead of a person.
 */
#include "base/err.h"
#include "run/run.h"

/* The request comes from the variable where there is one (then the status is for our parent, as with `bailey run`),
 * else from the descriptors. Fills *e for every end but RUN_ENDED. */
enum run_end supervise_job(int *ret_status, struct err *err);
