/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * --publish: a listener of the host, handed in, whose connections lead to a port of the sandbox's own loopback. A
 * socket belongs to the network namespace it was made in, so a process inside accepts on the host's listener and dials
 * here.
 */
#include "plan/plan.h"

/* Starts the relay, a child of init: one listener per entry of plan->publish. Takes the descriptors. */
int publish_start(const struct plan *plan, int *listeners, size_t n, struct err *err);
