/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey run --container`: a command in a container of docker or podman, whose network is the policy's. See
 * container.c.
 */
#include "run/run.h"

struct container_request {
        const struct run_request *run; /* argv: IMAGE [--] [COMMAND...] */
        const char *engine;            /* "docker", "podman" */
        char *const *arguments;        /* for `create`, NULL-terminated */
};

enum run_end container_run(const struct container_request *container_request, int *ret_status, struct err *err);
