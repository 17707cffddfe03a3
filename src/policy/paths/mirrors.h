/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Package mirrors that the user's own settings name: npm, pip, cargo, go and apt. Only the user's and the system's
 * files are read, and the variables; never a file of the workspace, since a repository must not grant itself anything.
 */
#include "policy/groups.h"
#include "policy/policy.h"

/* Adds the mirrors for the groups in network.allow to network.mirrors. Files that cannot be read or parsed are skipped:
 * they belong to other programs, and a host that is left out is only refused. `root` is "" but in tests: put before
 * /etc. */
int mirrors_find(struct policy *policy, const char *root, struct err *err);
