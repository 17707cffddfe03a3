/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle connections to origins, of one worker. Keyed by identity, name, port and the address that was judged; whoever
 * takes one judges name and address again by the policy of that moment. Bytes or an end that arrive while a connection
 * rests here make it useless: nobody asked for them. The newest is taken first, so that the others can age.
 */
#include "gateway/http_session.h"

#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS = 256, IDLE_MAX = 512, IDLE_PER_BUCKET_MAX = 128 };
#define IDLE_NS (30 * NS_PER_SECOND)
#define ONCE_IDLE_NS (2 * NS_PER_SECOND)

struct bucket {
        struct link upstreams;
        size_t n;
};

struct upstream {
        struct link link;
        struct bucket *bucket;
        struct upstream_pool *pool;
        struct stream *stream;
        struct timer limit;
        struct task destroy;
        uint64_t since; /* it rests here */
        struct addr addr;
        uint16_t port;
        uint8_t identity; /* enum http_identity */
        uint8_t name_n;
        char name[];
};

struct upstream_pool {
        struct worker *worker;
        size_t n;
        struct link sessions; /* all HTTP sessions of the worker */
        struct bucket buckets[BUCKETS];
};

static struct bucket *bucket_of(struct upstream_pool *p, const struct authority *t) {
        uint64_t hash = hash_bytes(hash_seed(), t->host.name, t->host.name_n) + t->port;
        return &p->buckets[hash % BUCKETS];
}

static bool leads_to(const struct upstream *u, const struct authority *t, uint8_t identity) {
        return u->port == t->port && u->identity == identity && str_eq(str_n(u->name, u->name_n), host_str(&t->host));
}

static void destroy(struct task *t) {
        free(link_owner(t, struct upstream, destroy));
}

/* Takes it out; its stream is handed back. */
static struct stream *detach(struct upstream *u) {
        struct stream *s = u->stream;
        link_remove(&u->link);
        timer_stop(&u->limit);
        u->pool->n--;
        u->bucket->n--;
        stream_set_owner(s, NULL, NULL);
        loop_defer(u->pool->worker->loop, &u->destroy);
        return s;
}

static void on_limit(struct timer *t) {
        stream_close(detach(link_owner(t, struct upstream, limit)));
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
        struct link *bucket = &bucket_of(p, target)->upstreams;
        for (struct link *l = bucket->prev; l != bucket; l = l->prev)
                if (leads_to(link_owner(l, struct upstream, link), target, IDENTITY_HTTPS))
                        return true;
        return false;
}

struct stream *upstream_pool_take(struct upstream_pool *p, const struct authority *target, uint8_t identity, bool once,
                                  struct addr *ret_addr) {
        struct link *bucket = &bucket_of(p, target)->upstreams;
        if (link_is_empty(bucket))
                return NULL;
        const struct snapshot *snapshot = worker_snapshot(p->worker);
        for (struct link *l = bucket->prev, *older; l != bucket; l = older) {
                struct upstream *u = link_owner(l, struct upstream, link);
                older = l->prev;
                if (!leads_to(u, target, identity))
                        continue;
                if (once && !is_recent(u))
                        return NULL; /* the newest is taken first: the others are older still */
                if (u->addr.family != ADDR_NONE &&
                    verdict_address(snapshot, &target->host, &u->addr, target->port).decision == DECISION_DENY) {
                        stream_close(detach(u)); /* the policy changed while it rested */
                        continue;
                }
                struct addr addr = u->addr;
                struct stream *s = detach(u);
                if (is_silent(s, once)) {
                        *ret_addr = addr;
                        return s;
                }
                stream_close(s);
        }
        return NULL;
}

void upstream_pool_put(struct upstream_pool *p, const struct authority *target, uint8_t identity,
                       const struct addr *addr, struct stream *s) {
        struct bucket *bucket = bucket_of(p, target);
        struct upstream *u = NULL;
        if (p->n < IDLE_MAX && bucket->n < IDLE_PER_BUCKET_MAX && !s->closed && !stream_has_pushback(s))
                u = malloc(sizeof *u + target->host.name_n);
        if (!u) {
                stream_close(s);
                return;
        }
        *u = (struct upstream){
                .pool = p,
                .stream = s,
                .since = loop_now(p->worker->loop),
                .addr = *addr,
                .port = target->port,
                .identity = identity,
                .name_n = target->host.name_n,
        };
        memcpy(u->name, target->host.name, target->host.name_n);
        task_init(&u->destroy, destroy);
        timer_init(&u->limit, p->worker->loop, on_limit);
        timer_start(&u->limit, IDLE_NS);
        u->bucket = bucket;
        link_append(&bucket->upstreams, &u->link);
        bucket->n++;
        p->n++;
        stream_set_owner(s, on_ready, u);
}

int upstream_pool_new(struct worker *w, struct upstream_pool **ret) {
        struct upstream_pool *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        p->worker = w;
        link_init(&p->sessions);
        for (size_t i = 0; i < BUCKETS; i++)
                link_init(&p->buckets[i].upstreams);
        *ret = p;
        return 0;
}

void upstream_pool_watch(struct upstream_pool *p, struct link *session) {
        link_append(&p->sessions, session);
}

void upstream_pool_free(struct upstream_pool *p) {
        if (!p)
                return;
        while (!link_is_empty(&p->sessions))
                http_session_end(link_owner(p->sessions.next, struct http_session, of_worker), false);
        for (size_t i = 0; i < BUCKETS; i++)
                while (!link_is_empty(&p->buckets[i].upstreams))
                        stream_close(detach(link_owner(p->buckets[i].upstreams.next, struct upstream, link)));
        free(p);
}
