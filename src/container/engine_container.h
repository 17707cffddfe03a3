/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which container an address belongs to, according to the engine: a container's own claims prove nothing.
 *
 * The engine gives an address away again when its container has ended. So a caller that acts on an answer holds a
 * descriptor of the container's first process (engine_container_hold()): while that process lives the address is this
 * container's, and when it ends the descriptor says so before the engine can have given the address to another.
 */
#include "base/err.h"
#include "policy/match/addr.h"

#include <stdbool.h>
#include <sys/types.h>

enum { ENGINE_STARTED_MAX = 64, ENGINE_NAME_MAX = 129 };

struct engine_container {
        char name[ENGINE_NAME_MAX];       /* engine_name_valid() */
        pid_t pid;                        /* of its first process, on this host */
        char started[ENGINE_STARTED_MAX]; /* when, in the engine's words */
};

/* Letters, digits, '_', '.', '-', the first one a letter or a digit: what engines accept, and no path. */
bool engine_name_valid(const char *name);

/* The running container that has this address in this network. 1; 0: none has, or two say that they have; negative: the
 * engine does not answer, or its answer is not understood. */
int engine_container_at(const char *engine, const char *network, const struct addr *addr, struct engine_container *ret,
                        struct err *err);
bool engine_container_same(const struct engine_container *one, const struct engine_container *other);
/* The same, with a descriptor of its first process; asked twice, since the number may have become another's between the
 * answer and the descriptor. */
int engine_container_hold(const char *engine, const char *network, const struct addr *addr,
                          struct engine_container *ret, int *ret_pidfd, struct err *err);
