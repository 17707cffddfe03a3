/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sandbox's control group (cgroup v2), where this user may have one: limits then hold for everything in the sandbox
 * together, files in memory included, and all remaining processes can be killed at once.
 *
 * The group is made beside the supervisor's own (a group with processes in it can have no limited groups below), so the
 * group above must be this user's: so it is for root, and below a user's systemd manager (systemd-run --user --scope).
 * Init is cloned into it; moving a process later would cost milliseconds. If any of this fails there is no group,
 * unless systemd provides one (scope.h); rlimits hold for each process in any case.
 *
 * The supervisor removes the group. When it was killed init does, with descriptors that it was given for that; what
 * both of them left (or init, for root in the topmost group) is removed by a later run.
 */
#include "sandbox/sandbox.h"

#include <limits.h>
#include <sys/types.h>

struct cgroup {
        int dir;   /* the group, -1: there is none */
        int above; /* the directory that it is in */
        int home;  /* where the supervisor is: init leaves the group by it */
        char name[48];
};
#define CGROUP_NONE ((struct cgroup){ .dir = -1, .above = -1, .home = -1 })

/* Above the plan's limit: some are Bailey's own, init, the broker and its threads. */
enum { CGROUP_RESERVED_PROCESSES = 64 };

enum cgroup_lack { CGROUP_WORKS, CGROUP_NO_MOUNT, CGROUP_NOT_OURS, CGROUP_NO_CONTROLLERS };
/* Whether a group can be had here, without making one. */
enum cgroup_lack cgroup_look(void);

/* CGROUP_NONE where it cannot be. */
struct cgroup cgroup_make(void);
/* Sets the plan's limits; a controller that is not there is not an error, one that refuses is. */
int cgroup_limit(const struct cgroup *cgroup, const struct plan *plan, struct err *err);
/* The first of these limits that is not set there, NULL when all are. */
const char *cgroup_missing(const struct cgroup *cgroup, const struct plan_group *limits);
/* The group that a process is in, as a path; 0 for this process. */
int cgroup_path(pid_t pid, char ret[static PATH_MAX]);
/* How often its limits were met. */
struct sandbox_met cgroup_met(const struct cgroup *cgroup);
/* Ends everything in it. */
void cgroup_kill(const struct cgroup *cgroup);
/* When nothing lives in it. */
void cgroup_remove(struct cgroup *cgroup);
/* For init, when the supervisor is gone and everything else in the group is dead. */
void cgroup_leave(const struct cgroup *cgroup);
