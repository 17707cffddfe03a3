/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files that a container of `bailey run --container` is given, in a directory of its own below Bailey's state, and
 * the socket by which its first process (bailey-gate) reports. The run holds a lock there while it lives; the next run
 * removes what a killed one left behind, its container included.
 */
#include "base/err.h"

#include <sys/socket.h>

struct container_place {
        char *directory, *name; /* of the container: "bailey-ID" */
        char *socket, *resolv, *empty_directory, *empty_file;
        int lock, listener;
};
#define CONTAINER_PLACE ((struct container_place){ .lock = -1, .listener = -1 })

int container_place_make(struct container_place *container_place, const char *engine, const char *id, struct err *err);
void container_place_done(struct container_place *place);

/* Until the gate calls, or the engine's process (a pidfd) ends. One caller is taken, and nobody after it. *ret: who it
 * is, as this host sees it. */
int container_place_accept(struct container_place *place, int engine_pidfd, int *ret_gate, struct ucred *ret,
                           struct err *err);

/* Returns when the engine has no such container any more. */
int container_remove(const char *engine, const char *name, struct err *err);
