/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/quota.h"

#include "base/clock.h"
#include "base/map.h"

#include <pthread.h>
#include <stdlib.h>

/* A wildcard lets a client make up names without end; beyond this many counted hosts new ones are refused. */
enum { HOSTS_MAX = 65536 };

struct host_bytes {
        atomic_uint_fast64_t sent;
};

struct quota {
        atomic_uint_fast32_t connections, per_second; /* the limits may change at any time */
        atomic_uint_fast64_t bytes_out, bytes_out_per_host;
        atomic_uint_fast32_t open;
        atomic_uint_fast64_t second; /* the second in the upper half, connections in it in the lower */
        atomic_uint_fast64_t sent;
        pthread_mutex_t lock;
        struct map hosts; /* under lock */
};

void quota_set(struct quota *quota, const struct gateway_limits *limits) {
        atomic_store_explicit(&quota->connections, limits->connections, memory_order_relaxed);
        atomic_store_explicit(&quota->per_second, limits->connections_per_second, memory_order_relaxed);
        atomic_store_explicit(&quota->bytes_out, limits->bytes_out, memory_order_relaxed);
        atomic_store_explicit(&quota->bytes_out_per_host, limits->bytes_out_per_host, memory_order_relaxed);
}

#define LIMIT(q, name) atomic_load_explicit(&(q)->name, memory_order_relaxed)

struct quota *quota_new(const struct gateway_start *start) {
        struct quota *quota = calloc(1, sizeof *quota);
        if (!quota)
                return NULL;
        const struct gateway_limits limits = gateway_start_limits(start);
        quota_set(quota, &limits);
        pthread_mutex_init(&quota->lock, NULL);
        return quota;
}

void quota_free(struct quota *quota) {
        if (!quota)
                return;
        map_done(&quota->hosts, free);
        pthread_mutex_destroy(&quota->lock);
        free(quota);
}

static bool within_rate(struct quota *quota, uint64_t now_ns) {
        uint_fast32_t per_second = LIMIT(quota, per_second);
        if (per_second == 0)
                return true;

        uint64_t second = now_ns / NS_PER_SECOND << 32;
        uint_fast64_t old = atomic_load_explicit(&quota->second, memory_order_relaxed), next;

        do {
                /* Workers look at the clock at different moments: one that is behind must not begin anew. */
                next = (old >> 32 << 32) >= second ? old + 1 : second + 1;
                if ((next & UINT32_MAX) > per_second)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(&quota->second, &old, next, memory_order_relaxed,
                                                        memory_order_relaxed));

        return true;
}

bool quota_enter(struct quota *quota, uint64_t now_ns) {
        uint_fast32_t before = atomic_fetch_add_explicit(&quota->open, 1, memory_order_relaxed);
        uint_fast32_t connections = LIMIT(quota, connections);
        if ((connections == 0 || before < connections) && within_rate(quota, now_ns))
                return true;
        quota_leave(quota);
        return false;
}

void quota_leave(struct quota *quota) {
        atomic_fetch_sub_explicit(&quota->open, 1, memory_order_relaxed);
}

bool quota_may_send(const struct quota *quota) {
        uint_fast64_t limit = LIMIT(quota, bytes_out);
        return limit == 0 || atomic_load_explicit(&quota->sent, memory_order_relaxed) < limit;
}

struct host_bytes *quota_host(struct quota *quota, const struct host *host, bool *ret_full) {
        *ret_full = false;
        if (LIMIT(quota, bytes_out_per_host) == 0)
                return NULL;

        pthread_mutex_lock(&quota->lock);
        struct host_bytes *bytes = map_get(&quota->hosts, host_str(host));
        if (!bytes && quota->hosts.n < HOSTS_MAX) {
                bytes = calloc(1, sizeof *bytes);
                if (bytes && map_add(&quota->hosts, host_str(host), bytes) < 0) {
                        free(bytes);
                        bytes = NULL;
                }
        }

        pthread_mutex_unlock(&quota->lock);
        *ret_full = !bytes;

        return bytes;
}

bool quota_host_may_send(const struct quota *quota, const struct host_bytes *bytes) {
        uint_fast64_t limit = LIMIT(quota, bytes_out_per_host);
        return !bytes || limit == 0 || atomic_load_explicit(&bytes->sent, memory_order_relaxed) < limit;
}

bool quota_sent(struct quota *quota, struct host_bytes *bytes, size_t n) {
        bool within = true;
        uint_fast64_t all = LIMIT(quota, bytes_out), each = LIMIT(quota, bytes_out_per_host);
        if (all)
                within = atomic_fetch_add_explicit(&quota->sent, n, memory_order_relaxed) + n <= all;
        if (bytes)
                within &= atomic_fetch_add_explicit(&bytes->sent, n, memory_order_relaxed) + n <= each || each == 0;
        return within;
}
