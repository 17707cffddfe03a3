/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A user's own arguments for docker and podman. Most are harmless; some give the container this host (an engine's
 * socket, the host's processes, devices, privileges), lead around the gateway, or replace what Bailey sets. One table
 * says which, for `bailey egress docker-args` and for `bailey run --container`.
 *
 * Every form that the engines take is read: --flag=value, --flag value, -fvalue, -f value, -f=value, clusters such as
 * -ite NAME. A flag that is not in the table passes, and so does its value.
 */
#include "base/err.h"
#include "base/str.h"
#include "container/container_seen.h"

enum container_use {
        CONTAINER_EGRESS = 1, /* beside a gateway in the background */
        CONTAINER_RUN = 2,    /* made by Bailey, which enters its network namespace */
};

struct container_args {
        enum container_use use;
        /* Whether Bailey sets this variable itself. */
        bool (*owns)(void *arg, struct str variable);
        /* -EPERM and the reason in e, to be refused; 0 to let it pass. NULL: refused. */
        int (*object)(void *arg, struct err *e, const char *reason);
        const char *kept;     /* a path inside on which nothing else may be mounted, nor below */
        container_seen *seen; /* gets what is mounted of this host, to be compared later; NULL: nobody does */
        void *arg;
};

int container_args_check(const struct container_args *args, char *const *given, struct err *err);
/* The value that -e, --env or, failing these, --env-file gives this variable, the last one; NULL: none does. */
char *container_args_variable(char *const *given, const char *name);
