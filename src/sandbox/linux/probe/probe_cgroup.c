/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup v2: a group is really made, as a sandbox has it, and removed again; no process is moved. If none can be made,
 * the user's systemd is asked for a scope with this process in it, as for a policy with limits. */
#include "sandbox/linux/cgroup.h"
#include "sandbox/linux/probe/probe_internal.h"
#include "sandbox/linux/scope.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static void try_scope(struct probe_result *result, int error, const char *step) {
        static const struct plan_group limits = { .memory = 1U << 30, .processes = 1024 };
        struct cgroup cgroup = CGROUP_NONE;
        struct err err = { 0 };
        char detail[sizeof result->detail];

        if (scope_join(getpid(), &limits, &cgroup, &err) == 0) {
                result_works(result,
                             "by a systemd scope, where the policy sets a limit of memory, processes or processors");
        } else if (err.code == ENOENT) {
                result_fail(result, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, error, step);
        } else {
                (void)snprintf(detail, sizeof detail, "%s", err_text(&err));
                result_fail(result, PROBE_BLOCKED, CAUSE_NO_SCOPE, 0, detail);
        }

        cgroup_remove(&cgroup);
}

void try_cgroup(struct probe_result *result) {
        bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;

        switch (cgroup_look()) {
        case CGROUP_NO_MOUNT:
                result_fail(result, PROBE_MISSING, v1 ? CAUSE_CGROUP_V1 : CAUSE_NOT_BUILT, ENOENT, "no cgroup2 mount");
                return;
        case CGROUP_NOT_OURS:
                try_scope(result, EACCES, "write to the group above our own");
                return;
        case CGROUP_NO_CONTROLLERS:
                try_scope(result, 0, "no memory and pids controllers for groups here");

                return;
        default:
                break;
        }

        struct cgroup cgroup = cgroup_make();
        if (cgroup.dir < 0) {
                result_fail(result, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, errno, "mkdir beside our own cgroup");
                return;
        }

        cgroup_remove(&cgroup);
        result_works(result, "directly");
}
