/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/pace.h"

#include "base/hash.h"

static uint64_t host_key(const struct host *host) {
        struct str name = host_str(host);

        return hash_bytes(hash_seed(), name.p, name.n);
}

static bool is_forgotten(const struct pace_host *h, uint64_t now_ns) {
        return h->n == 0 || now_ns - h->last_ns > PACE_FORGET_NS;
}

static struct pace_host *find_host(struct pace *p, uint64_t key) {
        for (size_t i = 0; i < PACE_HOSTS; i++)
                if (p->hosts[i].n > 0 && p->hosts[i].key == key)
                        return &p->hosts[i];
        return NULL;
}

/* The one that was refused last the longest ago. */
static struct pace_host *oldest_host(struct pace *p) {
        struct pace_host *oldest = &p->hosts[0];

        for (size_t i = 1; i < PACE_HOSTS; i++)
                if (p->hosts[i].last_ns < oldest->last_ns)
                        oldest = &p->hosts[i];
        return oldest;
}

static uint64_t delay_of(uint32_t n) {
        uint64_t delay = PACE_FIRST_NS;

        if (n <= PACE_FREE)
                return 0;
        for (uint32_t step = (n - PACE_FREE) / PACE_STEP; step > 0 && delay < PACE_MOST_NS; step--)
                delay *= 2;
        return delay < PACE_MOST_NS ? delay : PACE_MOST_NS;
}

uint64_t pace_delay(struct pace *p, const struct host *host, uint64_t now_ns) {
        uint64_t key = host_key(host);
        struct pace_host *h = find_host(p, key);

        if (!h) {
                h = oldest_host(p);
                *h = (struct pace_host){ .key = key };
        }
        if (is_forgotten(h, now_ns))
                h->n = 0;
        h->last_ns = now_ns;
        if (h->n < UINT32_MAX)
                h->n++;
        return p->held < PACE_HELD_MAX ? delay_of(h->n) : 0;
}

bool pace_is_slow(const struct pace *p, const struct host *host, uint64_t now_ns) {
        const struct pace_host *h = find_host((struct pace *)p, host_key(host));

        return h && !is_forgotten(h, now_ns) && h->n >= PACE_FREE && p->held < PACE_HELD_MAX;
}
