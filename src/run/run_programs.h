/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The host's ssh, gpg and agent for one run. The gateway asks by a message of fixed form; the request is judged here
 * once more, by host, repository, service and key, and the command line is built here from scratch. A compromised
 * gateway gets no option of ssh, and no repository or key that the policy does not name.
 */
#include "roles/gateway_process.h"

struct run;

/* For struct session_calls. */
void run_programs_asked(void *run, const struct ipc_message *message);
void run_programs_notice(void *run, enum gateway_notice notice, const char *text);
/* One or more have ended. */
void run_programs_step(struct run *run);

/* Before the plan: the programs inside that stand for them. */
struct plan_host;
struct policy;
int run_programs_show(const struct policy *policy, struct plan_host *host, struct err *err);
