/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle connections to origins, of one worker. Keyed by identity, name, port and the address that was judged; whoever
 * takes one judges name and address again by the policy of that moment. Bytes or an end that arrive while a connection
 * rests here make it useless: nobody asked for them. The newest is taken first, so that the others can age.
 *
 * As many may rest as there are clients that wait: thousands of clients have their answers in the same turn, and what
 * would be closed then is what they need for their next requests. So a client never costs more than two descriptors,
 * wherever they lead.
 */
#include "gateway/http/http_internal.h"

#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS = 256, IDLE_MIN = 512 };
#define IDLE_NS (30 * NS_PER_SECOND)
#define SWEEP_NS (5 * NS_PER_SECOND)
#define ONCE_IDLE_NS (2 * NS_PER_SECOND)

/* What leads to one origin. It is there while something rests on it. */
struct shelf {
        struct link of_bucket;
        struct link upstreams; /* the newest last */
        uint16_t port;
        uint8_t identity; /* enum http_identity */
        uint8_t name_n;
        char name[];
};

struct upstream {
        struct link of_shelf, by_age;
        struct upstream_pool *pool;
        struct shelf *shelf;
        struct stream *stream;
        struct task destroy;
        uint64_t since; /* it rests here */
        struct addr addr;
};

struct upstream_pool {
        struct worker *worker;
        size_t n, waiting;  /* at rest; sessions that wait for a request */
        struct link by_age; /* all that rest, the oldest first */
        struct timer sweep;
        bool sweeping; /* the timer runs: something rests, or did a moment ago */
        struct link buckets[BUCKETS];
};

static struct link *bucket_of(struct upstream_pool *pool, const struct authority *authority) {
        uint64_t hash = hash_bytes(hash_seed(), authority->host.name, authority->host.name_n) + authority->port;
        return &pool->buckets[hash % BUCKETS];
}

static struct shelf *shelf_in(struct link *bucket, const struct authority *authority, uint8_t identity) {
        for (struct link *l = bucket->next; l != bucket; l = l->next) {
                struct shelf *shelf = link_owner(l, struct shelf, of_bucket);
                if (shelf->port == authority->port && shelf->identity == identity &&
                    str_eq(str_n(shelf->name, shelf->name_n), host_str(&authority->host)))
                        return shelf;
        }
        return NULL;
}

static struct shelf *shelf_new(struct link *bucket, const struct authority *authority, uint8_t identity) {
        struct shelf *shelf = malloc(sizeof *shelf + authority->host.name_n);
        if (!shelf)
                return NULL;

        *shelf = (struct shelf){ .port = authority->port, .identity = identity, .name_n = authority->host.name_n };
        memcpy(shelf->name, authority->host.name, authority->host.name_n);
        link_init(&shelf->of_bucket);
        link_init(&shelf->upstreams);
        link_append(bucket, &shelf->of_bucket);

        return shelf;
}

static void shelf_leave(struct shelf *shelf) {
        if (!link_is_empty(&shelf->upstreams))
                return;
        link_remove(&shelf->of_bucket);
        free(shelf);
}

static void pool_destroy(struct task *task) {
        free(link_owner(task, struct upstream, destroy));
}

/* Takes it out, and its shelf with it when it was the last; its stream is handed back. */
static struct stream *pool_detach(struct upstream *upstream) {
        struct stream *stream = upstream->stream;

        link_remove(&upstream->of_shelf);
        link_remove(&upstream->by_age);
        shelf_leave(upstream->shelf);
        upstream->pool->n--;
        stream_set_owner(stream, NULL, NULL);
        loop_defer(upstream->pool->worker->loop, &upstream->destroy);

        return stream;
}

static struct upstream *pool_oldest(struct upstream_pool *pool) {
        return link_is_empty(&pool->by_age) ? NULL : link_owner(pool->by_age.next, struct upstream, by_age);
}

static void on_sweep(struct timer *timer) {
        struct upstream_pool *pool = link_owner(timer, struct upstream_pool, sweep);
        struct upstream *upstream;
        while ((upstream = pool_oldest(pool)) && loop_now(pool->worker->loop) - upstream->since >= IDLE_NS)
                stream_close(pool_detach(upstream));
        pool->sweeping = upstream != NULL;
        if (upstream)
                timer_start(&pool->sweep, SWEEP_NS);
}

static bool is_full(const struct upstream_pool *pool) {
        return pool->n >= IDLE_MIN && pool->n > pool->waiting;
}

/* A new connection will be opened. Two go for the one that comes, so that clients that have left are made up for. */
static void make_room(struct upstream_pool *pool) {
        for (int i = 0; i < 2 && is_full(pool); i++)
                stream_close(pool_detach(pool_oldest(pool)));
}

/* Nothing has arrived on it since its last response, as far as anyone can know. sure: the socket itself is asked, since
 * an end may have arrived in this very turn. */
static bool is_silent(struct stream *stream, bool sure) {
        char byte;
        if (sure)
                stream_assume_readable(stream);
        return !stream->closed && (!stream->readable || stream_read(stream, &byte, 1) == -EAGAIN);
}

/* What wakes a resting connection may be TLS's own talk (a session ticket), which is none of ours. */
static void on_ready(struct stream *stream, void *owner) {
        if (!is_silent(stream, false))
                stream_close(pool_detach(owner));
}

/* Servers close what rested for some seconds (5 s is common), and a request may be on its way just then. */
static bool is_recent(const struct upstream *upstream) {
        return loop_now(upstream->pool->worker->loop) - upstream->since < ONCE_IDLE_NS;
}

bool upstream_pool_has(struct upstream_pool *pool, const struct authority *target) {
        return shelf_in(bucket_of(pool, target), target, IDENTITY_HTTPS) != NULL;
}

struct stream *upstream_pool_take(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                                  bool once, struct addr *ret_addr) {
        const struct snapshot *snapshot = worker_snapshot(pool->worker);
        struct link *bucket = bucket_of(pool, target);
        struct shelf *f;

        while ((f = shelf_in(bucket, target, identity))) {
                struct upstream *upstream = link_owner(f->upstreams.prev, struct upstream, of_shelf);
                if (once && !is_recent(upstream))
                        break; /* the newest is taken first: the others are older still */

                struct addr addr = upstream->addr;
                struct stream *stream = pool_detach(upstream);

                if ((addr.family == ADDR_NONE ||
                     verdict_address(snapshot, &target->host, &addr, target->port).decision != DECISION_DENY) &&
                    is_silent(stream, once)) {
                        *ret_addr = addr;
                        return stream;
                }

                stream_close(stream); /* the policy changed while it rested, or the origin has left */
        }

        make_room(pool);
        return NULL;
}

void upstream_pool_put(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                       const struct addr *addr, struct stream *stream) {
        struct upstream *upstream = NULL;

        if (!is_full(pool) && !stream->closed && !stream_has_pushback(stream))
                upstream = malloc(sizeof *upstream);

        struct link *bucket = bucket_of(pool, target);
        struct shelf *shelf = upstream ? shelf_in(bucket, target, identity) : NULL;
        if (upstream && !shelf)
                shelf = shelf_new(bucket, target, identity);

        if (!shelf) {
                free(upstream);
                stream_close(stream);
                return;
        }

        *upstream = (struct upstream){
                .pool = pool,
                .shelf = shelf,
                .stream = stream,
                .since = loop_now(pool->worker->loop),
                .addr = *addr,
        };
        task_init(&upstream->destroy, pool_destroy);
        link_init(&upstream->of_shelf);
        link_init(&upstream->by_age);
        link_append(&shelf->upstreams, &upstream->of_shelf);
        link_append(&pool->by_age, &upstream->by_age);
        pool->n++;

        if (!pool->sweeping)
                timer_start(&pool->sweep, SWEEP_NS);

        pool->sweeping = true;
        stream_set_owner(stream, on_ready, upstream);
}

int upstream_pool_new(struct worker *worker, struct upstream_pool **ret) {
        struct upstream_pool *pool = calloc(1, sizeof *pool);
        if (!pool)
                return -ENOMEM;

        pool->worker = worker;
        link_init(&pool->by_age);
        timer_init(&pool->sweep, worker->loop, on_sweep);

        for (size_t i = 0; i < BUCKETS; i++)
                link_init(&pool->buckets[i]);

        *ret = pool;
        return 0;
}

void upstream_pool_waits(struct upstream_pool *pool, bool waits) {
        pool->waiting += waits ? 1 : (size_t)-1;
}

void upstream_pool_free(struct upstream_pool *pool) {
        if (!pool)
                return;
        for (struct upstream *upstream; (upstream = pool_oldest(pool));)
                stream_close(pool_detach(upstream));
        timer_stop(&pool->sweep);
        free(pool);
}
