/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listeners and who serves what they accept. Each listener is polled by one worker, so that a connection wakes one
 * thread; that worker keeps it unless another has clearly fewer, then the descriptor is posted there. Light traffic
 * never crosses threads, heavy traffic spreads, and a burst is taken in shares so that open connections get their turn.
 */
#pragma once
/*
 * Listeners and who serves what they accept. Each listener is polled by one worker, so that a connection wakes one
 * thread; that worker keeps it unless another has fewer, then the descriptor is posted there. Light traffic never
 * crosses threads, heavy traffic spreads evenly, and a burst is taken in shares so that open connections get their
 * turn.
 */
#include "gateway/worker.h"

/* Starts accepting on the worker's share of the listeners (datagram ones are served, not accepted). */
int acceptor_start(struct worker *worker, const int *fds, struct err *err);
void acceptor_stop(struct worker *worker);
