/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials that a variable of the environment keeps elsewhere than usual: those places are closed as well. */
#include "policy/policy.h"

/* The variable that moves what is Bailey's own. */
#define MOVED_OWN_STATE "XDG_STATE_HOME"

/* Fills filesystem.moved from the environment, by the names that tools give such variables. -ENOMEM. */
int moved_find(struct policy *policy);
