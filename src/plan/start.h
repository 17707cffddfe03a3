/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a command starts. It starts in the requested directory, or not at all: `rm -f *` in another directory than the
 * expected one loses data.
 */
#include "plan/build.h"

/* The current directory where it was asked for by name or lies in the workspace, else the workspace. */
const char *plan_start_wanted(const struct policy *policy, const struct plan_host *host);

/* Keeps the directory in the plan. `visible`: the sandbox shows it as the host has it. If not, -EACCES, and the message
 * names the directory and says why. */
int plan_start(struct plan *plan, const struct plan_request *request, bool visible, struct err *err);

/* The same text for a sandbox that has no plan (a container). */
int plan_start_refused(const struct policy *policy, const struct plan_host *host, struct err *err);
