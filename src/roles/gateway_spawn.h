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

/* others: the listeners, then what comes after them. */
int gateway_spawn(const char *program, int start_block, int snapshot, const int *others, size_t n_others,
                  struct gateway_child *ret, struct err *e);
