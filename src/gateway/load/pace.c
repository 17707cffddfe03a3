/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/pace.h"

#include "base/bounds.h"
#include "base/hash.h"

static uint64_t host_key(const struct host *host) {
        struct str name = host_str(host);

        return hash_bytes(hash_seed(), name.p, name.n);
}

static bool is_forgotten(const struct pace_host *host, uint64_t now_ns) {
        return host->n == 0 || now_ns - host->last_ns > PACE_FORGET_NS;
}

static struct pace_host *find_host(struct pace *pace, uint64_t key) {
        for (size_t i = 0; i < PACE_HOSTS; i++)
                if (pace->hosts[i].n > 0 && pace->hosts[i].key == key)
                        return &pace->hosts[i];
        return NULL;
}

/* The one that was refused last the longest ago. */
static struct pace_host *oldest_host(struct pace *pace) {
        struct pace_host *oldest = &pace->hosts[0];

        for (size_t i = 1; i < PACE_HOSTS; i++)
                if (pace->hosts[i].last_ns < oldest->last_ns)
                        oldest = &pace->hosts[i];
        return oldest;
}

static uint64_t delay_of(uint32_t n) {
        uint64_t delay = PACE_FIRST_NS;

        if (n <= PACE_FREE)
                return 0;
        for (uint32_t step = (n - PACE_FREE) / PACE_STEP; step > 0 && delay < PACE_MOST_NS; step--)
                delay *= 2;
        return min_of(delay, PACE_MOST_NS);
}

uint64_t pace_delay(struct pace *pace, const struct host *host, uint64_t now_ns) {
        uint64_t key = host_key(host);
        struct pace_host *pace_host = find_host(pace, key);

        if (!pace_host) {
                pace_host = oldest_host(pace);
                *pace_host = (struct pace_host){ .key = key };
        }

        if (is_forgotten(pace_host, now_ns))
                pace_host->n = 0;

        pace_host->last_ns = now_ns;
        if (pace_host->n < UINT32_MAX)
                pace_host->n++;

        if (pace->held < PACE_HELD_MAX)
                return delay_of(pace_host->n);

        return 0;
}

bool pace_is_slow(const struct pace *pace, const struct host *host, uint64_t now_ns) {
        const struct pace_host *pace_host = find_host((struct pace *)pace, host_key(host));

        return pace_host && !is_forgotten(pace_host, now_ns) && pace_host->n >= PACE_FREE && pace->held < PACE_HELD_MAX;
}
