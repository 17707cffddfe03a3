/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a sandbox tried besides TCP and questions for names, and, in a mode without network, everything that it tried.
 * The kernel refuses these packets by itself (plan/gen/netlink.c); here they are read, so that each attempt is on
 * record and counts for the monitor. A flood is tallied like any other refusal; what does not fit into the socket's
 * buffer is counted by the kernel's serial numbers.
 */
#include "gateway/worker.h"

struct packets;

int packets_new(struct worker *worker, int fd, struct packets **ret, struct err *err);
/* Reads what is still there: a program may end right after its attempt. */
void packets_free(struct packets *packets);
