/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Starting bailey-gateway with exactly the descriptors of ipc/gateway.h, and finding it. */
#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct gateway_child {
        pid_t pid;
        int pidfd, control, events; /* the caller's ends; control and events do not block */
};

int gateway_spawn(const char *program, int start_block, int snapshot, const int *listeners, size_t n_listeners,
                  struct gateway_child *ret, struct err *e);
/* SIGKILL, to this process and never to one that got its number later. */
void gateway_spawn_kill(int pidfd, pid_t pid);
