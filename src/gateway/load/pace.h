/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Refusals that are repeated without end are answered later and later. A program that spins (a package manager that
 * asks for the same refused host 400 times a second, for ten minutes) costs a processor and fills records, and nobody
 * gains. The first of a host are answered at once, then the delay doubles up to a bound; after a pause all is as at the
 * start.
 *
 * Kept for each worker, in a table of fixed size: when it is full the host that has been quiet for longest makes room.
 * So many answers wait at a time and no more, and nothing that is allowed ever waits. Only where connections are
 * captured: a gateway that serves others has its own limits.
 */
#include "policy/match/host.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACE_HOSTS = 64, PACE_FREE = 64, PACE_STEP = 16, PACE_HELD_MAX = 128 };
#define PACE_FIRST_NS (UINT64_C(5) * 1000 * 1000)
#define PACE_MOST_NS (UINT64_C(2500) * 1000 * 1000)
#define PACE_FORGET_NS (UINT64_C(20) * 1000 * 1000 * 1000)

struct pace {
        struct pace_host {
                uint64_t key, last_ns;
                uint32_t n;
        } hosts[PACE_HOSTS];
        unsigned held; /* answers that wait now */
};

/* One more refusal of this host: how long its answer has to wait; 0: not at all. */
uint64_t pace_delay(struct pace *pace, const struct host *host, uint64_t now_ns);
/* Whether the next one would wait; nothing is counted. */
bool pace_is_slow(const struct pace *pace, const struct host *host, uint64_t now_ns);
