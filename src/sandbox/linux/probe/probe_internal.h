/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between probe.c and the files that try one kind of thing each. */
#include "sandbox/linux/probe/probe.h"

#include <stddef.h>

/* Runs in a child of its own, single-threaded, which then exits: it may change anything about itself. */
typedef void probe_try_fn(struct probe_result *r);

probe_try_fn try_user_ns, try_uid_map, try_mount_ns, try_pid_ns, try_net_ns, try_ipc_ns, try_uts_ns, try_cgroup_ns;
probe_try_fn try_proc, try_overlay, try_mount_api;
probe_try_fn try_redirect;
probe_try_fn try_landlock, try_seccomp, try_notify, try_openat2, try_clone3, try_pidfd, try_memfd_secret, try_yama;
probe_try_fn try_cgroup;

void result_works(struct probe_result *result, const char *detail);
void result_fail(struct probe_result *result, enum probe_state state, enum probe_cause cause, int error,
                 const char *step);
/* For a system call that failed: ENOSYS and the like are "missing", EPERM is looked into. */
void result_error(struct probe_result *result, int error, const char *step);

/* Makes a user namespace with this user as root in it, and the other namespaces of `flags`. False: *r says why not. */
bool enter_user_ns(struct probe_result *result, int flags);
/* Maps this user to root of the user namespace just made. */
bool map_to_root(struct probe_result *result, unsigned uid, unsigned gid);

/* The number in a file such as /proc/sys/kernel/yama/ptrace_scope, or -1. */
long read_number(const char *path);
/* True when a seccomp filter already stands over this process. */
bool under_seccomp_filter(void);
