/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup v2: a group is really made, as a sandbox has it, and removed again; no process is moved. */
#include "sandbox/linux/cgroup.h"
#include "sandbox/linux/probe_try.h"

#include <errno.h>
#include <unistd.h>

void try_cgroup(struct probe_result *r) {
        bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
        switch (cgroup_look()) {
        case CGROUP_NO_MOUNT:
                result_fail(r, PROBE_MISSING, v1 ? CAUSE_CGROUP_V1 : CAUSE_NOT_BUILT, ENOENT, "no cgroup2 mount");
                return;
        case CGROUP_NOT_OURS:
                result_fail(r, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, EACCES, "write to the group above our own");
                return;
        case CGROUP_NO_CONTROLLERS:
                result_fail(r, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, 0, "no memory and pids controllers for groups here");
                return;
        default:
                break;
        }
        struct cgroup g = cgroup_make();
        if (g.dir < 0) {
                result_fail(r, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, errno, "mkdir beside our own cgroup");
                return;
        }
        cgroup_remove(&g);
        result_works(r, NULL);
}
