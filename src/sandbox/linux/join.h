/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A network namespace that a container engine made: confined from outside, before its command runs. */
#include "plan/plan.h"

#include <sys/types.h>

/* A descriptor of /proc/PID, after checking that the process executes the file `program`. Later use of the descriptor
 * concerns this process or fails. -EPROTO: it is another program. */
int join_find(pid_t pid, const char *program, int *ret_proc, struct err *err);
/* In a child: enters the user namespace (where it is another one) and the network namespace of the process, lays the
 * plan's routes and rules, and opens its listeners. They are handed out. Where the namespace has no IPv6, its part is
 * taken out of the plan. Fails when it is this process's own network. */
int join_network(int proc, struct plan *plan, int ret_fds[static PLAN_LISTENERS_MAX], size_t *ret_n, struct err *err);
