/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which worker a new connection goes to. The first worker accepts them all, and keeps them while it has processor time
 * left: one thread wakes once for several connections, its cache of names, of idle connections to origins and of TLS
 * sessions is everybody's, and nothing crosses over. Another worker is woken when those that run have used up what a
 * processor gives each of them, or have more connections than one thread should hold; it rests again when the load is
 * gone. A worker that was never needed has no thread.
 *
 * Only the first worker's thread is in here, so nothing is locked.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;

enum { BALANCE_CROWD = 1024 /* connections, for each worker in use */ };

struct balance {
        uint64_t since;      /* when processor times were read last; 0: never */
        uint64_t used;       /* by all workers until then */
        uint64_t full_since; /* since when they have used up what they get; 0: they have not */
        unsigned in_use;     /* workers that new connections go to; 0 before the first one is chosen */
};

/* How many workers to use from now on, of `most`: all together used `used` of the `passed` nanoseconds. */
unsigned balance_wanted(unsigned in_use, unsigned most, uint64_t used, uint64_t passed, uint64_t clients);

/* Takes what is wanted: fewer at once, more when the load has lasted for a while, or for a crowd. `since` is still that
 * of the time that was looked at. */
void balance_settle(struct balance *balance, unsigned wanted, bool crowded, uint64_t now);

/* Processor time that a thread has used. */
uint64_t balance_thread_ns(pthread_t thread);

/* The worker for a connection that `self`, the first worker, has accepted. */
struct worker *balance_choose(struct worker *self);
