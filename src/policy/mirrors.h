/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Package mirrors that the user's own settings name: npm, pip, cargo, go and apt. Only the user's and the system's
 * files are read, and the variables; never a file of the workspace, since what comes with a repository grants nothing.
 */
#include "policy/groups.h"
#include "policy/policy.h"

/* Adds the mirrors for the groups in network.allow to network.mirrors. What cannot be read or understood is left out:
 * these are other programs' files, and leaving a host out only refuses it. `root` is "" but in tests: put before /etc.
 */
int mirrors_find(struct policy *policy, const char *root, struct err *err);
