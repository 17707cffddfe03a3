/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* From a request to a process inside the guest: a session and process group of its own, with a terminal or with the
 * three descriptors that came along. */
#include "guest/agent/agent_wire.h"

#include <sys/types.h>

struct agent_child {
        const struct agent_request *request;
        const int *fds;
        size_t n_fds;
        /* results */
        pid_t pid;
        int terminal; /* its other end, -1 for none */
        char text[AGENT_TEXT_MAX];
};

/* 0, or a negative errno with the reason in child->text; also when the program cannot be executed. */
int agent_spawn(struct agent_child *child);
