/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Starting bailey-gateway with exactly the descriptors of ipc/gateway_messages.h, and finding it. */
#include "roles/helper.h"

struct gateway_child {
        struct helper process;
        int control, events; /* the caller's ends; they do not block */
};

/* others: the listeners, then what comes after them. */
int gateway_spawn(const char *program, int start_block, int snapshot, const int *others, size_t n_others,
                  struct gateway_child *ret, struct err *err);
