/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Not every place where commands run can give what a policy may ask for. What cannot be given is refused before
 * anything runs, and by name: a policy that is silently kept in part misleads whoever wrote it.
 */
#include "policy/policy.h"

enum policy_place {
        PLACE_DEGRADED = 1,  /* without namespaces */
        PLACE_CONTAINER = 2, /* docker or podman */
        PLACE_GATEWAY = 4,   /* the gateway by itself */
};

/* -EOPNOTSUPP: the first setting that this place cannot give, where it was written, and what to do. */
int policy_check_served(const struct policy *policy, enum policy_place place, struct err *err);
