/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Steps that init takes, one file per kind of thing. Each returns 0 or a negative errno with the step's name in e. */
#include "plan/plan.h"

/* Of the command's standard descriptors none may lead past the sandbox. */
int check_inherited(struct err *err);
int apply_identity(unsigned uid, unsigned gid, struct err *err);
int apply_mounts(const struct plan *plan, struct err *err);
/* Loopback, routes, capture rules. *ret_silent: this kernel cannot log packets, so that those which are refused leave
 * no record. */
int apply_network(const struct plan *plan, bool *ret_silent, struct err *err);
/* Lets programs of this group send pings, so that those are refused, and recorded, as packets. */
void apply_ping(unsigned gid);
/* The listening sockets, in the plan's order, behind the *n that are there already. */
int apply_listeners(const struct plan *plan, int fds[static PLAN_LISTENERS_MAX], size_t *n, struct err *err);
int apply_hostname(const struct plan *plan, struct err *err);
/* For good: no capability is to be had by exec. Those that are there stay, so that this may come first. */
int confine_exec(struct err *err);
/* No capability but those in the mask, which the broker needs: they stay permitted until the next call without them. Of
 * the calling thread. */
int confine_capabilities(uint32_t keep, struct err *err);
/* The main system call filter. */
enum confine_scope { CONFINE_THREAD, CONFINE_PROCESS };
int confine_syscalls(const struct plan *plan, enum confine_scope scope, struct err *err);
/* Opens the ruleset's paths and returns the ruleset; -1 in *ret_fd when the plan has none. */
int confine_landlock(const struct plan *plan, int *ret_fd, struct err *err);
/* The second one, for the command alone: -1 where the plan has none. */
int confine_landlock_own(const struct plan *plan, int *ret_fd, struct err *err);
/* The kernel does not hold root to RLIMIT_NPROC; the sandbox's own pid namespace does, where it can. Before the mounts.
 */
void limit_processes_of_root(const struct plan *plan);
void limit_watchers(void);
int confine_limits(const struct plan *plan, struct err *err);
