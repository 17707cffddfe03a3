/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey exec --warm N`: sandboxes that were made before their commands (run/run_spare.h).
 *
 *     first call     nothing waits: the command is launched as ever; at the end N processes are left behind, which
 *                    prepare a sandbox each and listen on a socket in the control directory
 *     next calls     hand their command, their streams and their signals to one of them and wait for its end; that one
 *                    ends with the command, and another takes its place
 *     a minute later those that nobody used are gone
 *
 * There is no daemon: whatever is missing, late or of another mind is done without.
 */
#include "verbs/command_exec.h"

/* Whether one of them took the command: then *ret says what became of it. */
bool warm_exec(const struct exec_request *request, struct exec_outcome *ret, struct err *err);
/* The same for captured output: these streams and this link go to it. Returns a connection, which has to stay open
 * until the link has ended; negative: nobody took it, and all descriptors are still the caller's. */
int warm_hand_over(const struct exec_request *request, const int streams[static 3], int link);
/* Leaves as many behind as are missing. With --warm 0 those that wait are ended. */
void warm_leave(const struct exec_request *request);

/* The process that waits. Never returns when it was used: another one begins in its place. */
int warm_wait(const struct exec_request *request, struct err *err);
