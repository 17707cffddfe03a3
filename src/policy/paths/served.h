/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Not every place where commands run supports every setting of a policy. An unsupported setting is refused by name
 * before anything runs: a policy that is silently enforced in part misleads its author.
 */
#include "policy/policy.h"

enum policy_place {
        PLACE_DEGRADED = 1,  /* without namespaces */
        PLACE_CONTAINER = 2, /* docker or podman */
        PLACE_GATEWAY = 4,   /* the gateway by itself */
        PLACE_MACOS = 8,     /* a Mac: no vault, nobody to ask */
};

/* -EOPNOTSUPP: the first setting that this place does not support, its origin, and what to do. */
int policy_check_served(const struct policy *policy, enum policy_place place, struct err *err);
