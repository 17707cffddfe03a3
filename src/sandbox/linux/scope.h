/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A control group from the user's systemd, for when we cannot make one ourselves (an ordinary login session: the parent
 * group belongs to root). The manager is asked for a transient scope with one process in it and the limits as its
 * properties; systemd removes the scope when nothing lives in it any more.
 *
 * One call over D-Bus, spoken by hand (dbus.h): to the manager's private socket, or to the session's bus. Neither is
 * trusted to answer, or to answer well: all of it together takes at most a second, and any failure leaves the process
 * where it was, with its rlimits. Afterwards the kernel is asked whether the process is in the scope and the limits are
 * set: a manager that was not given a controller says nothing about it.
 *
 * It takes a round trip through two more processes, so it is asked for only where a policy sets such a limit.
 */
#include "sandbox/linux/cgroup.h"

#include <stdbool.h>

/* Whether there is a manager that could be asked. Nobody is. */
bool scope_look(void);

/* Moves the process into a scope with these limits. On success, or -EOPNOTSUPP when a limit does not hold there, *ret
 * is its group; it is not ours to remove. Otherwise *ret is untouched. */
int scope_join(pid_t pid, const struct plan_group *limits, struct cgroup *ret, struct err *err);

/* The call itself, for tests. */
struct dbus_out;
int scope_call(struct dbus_out *out, uint32_t serial, const char *name, pid_t pid, const struct plan_group *limits);
