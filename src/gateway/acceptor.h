/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listeners and who serves what they accept. All are polled by the first worker, so that a connection wakes one thread;
 * that worker keeps it unless another is wanted (gateway/load/balance.h), then the descriptor is posted there. Light
 * traffic never crosses threads, and a burst is taken in shares so that open connections get their turn.
 */
#include "gateway/worker.h"

/* Starts accepting on all listeners (datagram ones are served, not accepted). */
int acceptor_start(struct worker *worker, const int *fds, struct err *err);
void acceptor_stop(struct worker *worker);
