/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Listening sockets of the host that belong to one run. */
#include "base/err.h"
#include "plan/plan.h"

/* On a free port of 127.0.0.1: for a sandbox without a network namespace. */
int run_listen_loopback(uint16_t *ret_port, int *ret_fd, struct err *err);
/* For --publish, one for each entry of plan->publish, bound before anything runs, so that a port in use is reported at
 * once. After a failure, fds has those that were opened. */
int run_listen_published(const struct plan *plan, int fds[static PLAN_LISTENERS_MAX], struct err *err);
void run_listen_close(int fds[static PLAN_LISTENERS_MAX]);
