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

static struct link *bucket_of(struct upstream_pool *p, const struct authority *t) {
        uint64_t hash = hash_bytes(hash_seed(), t->host.name, t->host.name_n) + t->port;
        return &p->buckets[hash % BUCKETS];
}

static struct shelf *shelf_in(struct link *bucket, const struct authority *t, uint8_t identity) {
        for (struct link *l = bucket->next; l != bucket; l = l->next) {
                struct shelf *f = link_owner(l, struct shelf, of_bucket);
                if (f->port == t->port && f->identity == identity &&
                    str_eq(str_n(f->name, f->name_n), host_str(&t->host)))
                        return f;
        }
        return NULL;
}

static struct shelf *shelf_new(struct link *bucket, const struct authority *t, uint8_t identity) {
        struct shelf *f = malloc(sizeof *f + t->host.name_n);
        if (!f)
                return NULL;
        *f = (struct shelf){ .port = t->port, .identity = identity, .name_n = t->host.name_n };
        memcpy(f->name, t->host.name, t->host.name_n);
        link_init(&f->of_bucket);
        link_init(&f->upstreams);
        link_append(bucket, &f->of_bucket);
        return f;
}

static void shelf_leave(struct shelf *f) {
        if (!link_is_empty(&f->upstreams))
                return;
        link_remove(&f->of_bucket);
        free(f);
}

static void destroy(struct task *t) {
        free(link_owner(t, struct upstream, destroy));
}

/* Takes it out, and its shelf with it when it was the last; its stream is handed back. */
static struct stream *detach(struct upstream *u) {
        struct stream *s = u->stream;
        link_remove(&u->of_shelf);
        link_remove(&u->by_age);
        shelf_leave(u->shelf);
        u->pool->n--;
        stream_set_owner(s, NULL, NULL);
        loop_defer(u->pool->worker->loop, &u->destroy);
        return s;
}

static struct upstream *oldest(struct upstream_pool *p) {
        return link_is_empty(&p->by_age) ? NULL : link_owner(p->by_age.next, struct upstream, by_age);
}

static void on_sweep(struct timer *t) {
        struct upstream_pool *p = link_owner(t, struct upstream_pool, sweep);
        struct upstream *u;
        while ((u = oldest(p)) && loop_now(p->worker->loop) - u->since >= IDLE_NS)
                stream_close(detach(u));
        p->sweeping = u != NULL;
        if (u)
                timer_start(&p->sweep, SWEEP_NS);
}

static bool is_full(const struct upstream_pool *p) {
        return p->n >= IDLE_MIN && p->n > p->waiting;
}

/* A new connection will be opened. Two go for the one that comes, so that clients that have left are made up for. */
static void make_room(struct upstream_pool *p) {
        for (int i = 0; i < 2 && is_full(p); i++)
                stream_close(detach(oldest(p)));
}

/* Nothing has arrived on it since its last response, as far as anyone can know. sure: the socket itself is asked, since
 * an end may have arrived in this very turn. */
static bool is_silent(struct stream *s, bool sure) {
        char byte;
        if (sure)
                stream_assume_readable(s);
        return !s->closed && (!s->readable || stream_read(s, &byte, 1) == -EAGAIN);
}

/* What wakes a resting connection may be TLS's own talk (a session ticket), which is none of ours. */
static void on_ready(struct stream *s, void *owner) {
        if (!is_silent(s, false))
                stream_close(detach(owner));
}

/* Servers close what rested for some seconds (5 s is common), and a request may be on its way just then. */
static bool is_recent(const struct upstream *u) {
        return loop_now(u->pool->worker->loop) - u->since < ONCE_IDLE_NS;
}

bool upstream_pool_has(struct upstream_pool *p, const struct authority *target) {
        return shelf_in(bucket_of(p, target), target, IDENTITY_HTTPS) != NULL;
}

struct stream *upstream_pool_take(struct upstream_pool *p, const struct authority *target, uint8_t identity, bool once,
                                  struct addr *ret_addr) {
        const struct snapshot *snapshot = worker_snapshot(p->worker);
        struct link *bucket = bucket_of(p, target);
        struct shelf *f;
        while ((f = shelf_in(bucket, target, identity))) {
                struct upstream *u = link_owner(f->upstreams.prev, struct upstream, of_shelf);
                if (once && !is_recent(u))
                        break; /* the newest is taken first: the others are older still */
                struct addr addr = u->addr;
                struct stream *s = detach(u);
                if ((addr.family == ADDR_NONE ||
                     verdict_address(snapshot, &target->host, &addr, target->port).decision != DECISION_DENY) &&
                    is_silent(s, once)) {
                        *ret_addr = addr;
                        return s;
                }
                stream_close(s); /* the policy changed while it rested, or the origin has left */
        }
        make_room(p);
        return NULL;
}

void upstream_pool_put(struct upstream_pool *p, const struct authority *target, uint8_t identity,
                       const struct addr *addr, struct stream *s) {
        struct upstream *u = NULL;
        if (!is_full(p) && !s->closed && !stream_has_pushback(s))
                u = malloc(sizeof *u);
        struct link *bucket = bucket_of(p, target);
        struct shelf *f = u ? shelf_in(bucket, target, identity) : NULL;
        if (u && !f)
                f = shelf_new(bucket, target, identity);
        if (!f) {
                free(u);
                stream_close(s);
                return;
        }
        *u = (struct upstream){
                .pool = p,
                .shelf = f,
                .stream = s,
                .since = loop_now(p->worker->loop),
                .addr = *addr,
        };
        task_init(&u->destroy, destroy);
        link_init(&u->of_shelf);
        link_init(&u->by_age);
        link_append(&f->upstreams, &u->of_shelf);
        link_append(&p->by_age, &u->by_age);
        p->n++;
        if (!p->sweeping)
                timer_start(&p->sweep, SWEEP_NS);
        p->sweeping = true;
        stream_set_owner(s, on_ready, u);
}

int upstream_pool_new(struct worker *w, struct upstream_pool **ret) {
        struct upstream_pool *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        p->worker = w;
        link_init(&p->by_age);
        timer_init(&p->sweep, w->loop, on_sweep);
        for (size_t i = 0; i < BUCKETS; i++)
                link_init(&p->buckets[i]);
        *ret = p;
        return 0;
}

void upstream_pool_waits(struct upstream_pool *p, bool waits) {
        p->waiting += waits ? 1 : (size_t)-1;
}

void upstream_pool_free(struct upstream_pool *p) {
        if (!p)
                return;
        for (struct upstream *u; (u = oldest(p));)
                stream_close(detach(u));
        timer_stop(&p->sweep);
        free(p);
}
