/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one loop of a supervisor. Its parts (a child, the control socket, signals, a deadline) do not know each other.
 * In each round every part says what it waits for, the poller waits for the first of it, and every part takes a step:
 *
 *     static void signals_watch(void *arg, struct poller *poller) {
 *             poller_watch(poller, ((struct signals *)arg)->fd, POLLIN);
 *     }
 *     static int signals_step(void *arg, struct poller *poller, struct err *err) {
 *             return poller_ready(poller, ((struct signals *)arg)->fd) ? signals_read(arg, err) : 0;
 *     }
 *
 *     poller_add(&poller, &(struct poller_part){ signals_watch, signals_step, &signals });
 *     while (!ended) {
 *             r = poller_round(&poller, err);
 *             if (r < 0)
 *                     return r;
 *     }
 *
 * Parts step in the order in which they were added, whether or not something happened to them: a deadline is looked at
 * there. A step may close and open descriptors, also those of other parts: poller_ready() answers for the descriptors
 * that the stepping part itself was waiting for in this round, so a number that was used again is nobody's mistake.
 * Part objects are borrowed and must outlive the poller. Not thread-safe.
 */
#include "base/err.h"
#include "base/vec.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct poller;

struct poller_part {
        void (*watch)(void *arg, struct poller *poller);
        int (*step)(void *arg, struct poller *poller, struct err *err); /* an error ends the round */
        void *arg;
};

enum { POLLER_PARTS_MAX = 32 };

struct poller {
        struct {
                struct poller_part part;
                size_t first, n; /* its descriptors, in fds */
        } parts[POLLER_PARTS_MAX];
        size_t n_parts;
        size_t stepping;
        VEC(struct pollfd) fds;
        uint64_t due_ns;
        bool no_memory;
};

/* A poller with too many parts is a mistake in the program, which ends it. */
void poller_add(struct poller *poller, const struct poller_part *part);
/* Waits once and steps every part. */
int poller_round(struct poller *poller, struct err *err);
void poller_done(struct poller *poller);

/* In watch(). A descriptor below 0 is passed over. */
void poller_watch(struct poller *poller, int fd, short events);
/* In watch(): the round begins at this time at the latest, in terms of clock_ns(); CLOCK_NEVER: whenever. */
void poller_until(struct poller *poller, uint64_t due_ns);
/* In step(): what happened to a descriptor that this part watches; 0: nothing. */
short poller_ready(const struct poller *poller, int fd);
