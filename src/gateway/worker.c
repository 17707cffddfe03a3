/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "gateway/acceptor.h"
#include "gateway/ask.h"
#include "gateway/creds/swap.h"
#include "gateway/creds/vault_client.h"
#include "gateway/http/http_session.h"
#include "net/tls.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* As many connections leave memory behind that is worth giving back to the system, which the allocator does not do by
 * itself. It takes some milliseconds, so only when most of a crowd has gone, and not before it has gone for a moment.
 */
enum { CROWD = 512 };

bool worker_captures(const struct worker *w) {
        const struct gateway_start *start = &w->gateway->start;

        for (uint32_t i = 0; i < start->n_listeners; i++)
                if (start->listeners[i].kind == LISTENER_TRANSPARENT)
                        return true;
        return false;
}

void worker_left(struct worker *w, unsigned before) {
        if (before > w->crowd)
                w->crowd = before;
        if (w->crowd >= CROWD && before <= w->crowd / 4 && !timer_is_running(&w->trim))
                timer_start(&w->trim, NS_PER_SECOND);
}

static void on_trim(struct timer *t) {
        struct worker *w = link_owner(t, struct worker, trim);
        w->crowd = atomic_load_explicit(&w->clients, memory_order_relaxed);
        malloc_trim(0);
}

struct policy_ref *policy_ref_new(struct snapshot *s, uint32_t generation) {
        struct policy_ref *p = calloc(1, sizeof *p);
        if (p) {
                atomic_init(&p->references, 1);
                p->generation = generation;
                p->snapshot = s;
        }
        return p;
}

struct policy_ref *policy_ref_get(struct policy_ref *p) {
        atomic_fetch_add_explicit(&p->references, 1, memory_order_relaxed);
        return p;
}

void policy_ref_put(struct policy_ref *p) {
        if (!p || atomic_fetch_sub_explicit(&p->references, 1, memory_order_acq_rel) != 1)
                return;
        snapshot_close(p->snapshot);
        free(p);
}

void judged_add(struct worker *w, struct judged *j) {
        link_append(&w->judged, &j->link);
}

static bool is_still_allowed(const struct worker *w, const struct judged *j, struct verdict *ret) {
        const struct snapshot *s = worker_snapshot(w);
        *ret = verdict_target(s, &j->target->host, j->target->port);
        if (ret->decision == DECISION_ASK && j->asked)
                ret->decision = DECISION_ALLOW;
        if (ret->decision == DECISION_ALLOW && ret->needs_request && j->opaque) {
                ret->decision = DECISION_DENY;
                ret->reason = REASON_NOT_VISIBLE;
        }
        if (ret->decision == DECISION_ALLOW && ret->needs_request && j->method.n > 0)
                *ret = verdict_request(s, &j->target->host, j->target->port, j->method, j->path);
        if (ret->decision != DECISION_ALLOW)
                return false;
        if (j->target->host.kind == HOST_ADDR || j->addr.family == ADDR_NONE)
                return true;
        struct verdict v = verdict_address(s, &j->target->host, &j->addr, j->target->port);
        if (v.decision != DECISION_ALLOW)
                *ret = v;
        return v.decision == DECISION_ALLOW;
}

void worker_set_policy(struct worker *w, struct policy_ref *p) {
        policy_ref_put(w->policy);
        w->policy = p;
        struct link all;
        link_take_all(&w->judged, &all);
        while (!link_is_empty(&all)) {
                struct judged *j = link_owner(all.next, struct judged, link);
                link_remove(&j->link);
                link_append(&w->judged, &j->link);
                struct verdict v;
                if (!is_still_allowed(w, j, &v))
                        j->revoke(j, v);
        }
        ask_judge_again(w);
}

static struct resolver_settings resolver_settings(const struct gateway_start *start, struct resolve_server *servers) {
        for (unsigned i = 0; i < start->n_servers; i++)
                servers[i] = (struct resolve_server){ .addr = start->servers[i].addr, .port = start->servers[i].port };
        return (struct resolver_settings){
                .servers = servers,
                .n_servers = start->n_servers,
                .hosts_file = start->hosts_file,
                /* A name that takes longer than a connection may is of no use. */
                .timeout_ns = start->connect_ns < RESOLVE_TIMEOUT_NS ? start->connect_ns : RESOLVE_TIMEOUT_NS,
        };
}

static void worker_freep(struct worker **w) {
        worker_free(*w);
}

int worker_new(struct gateway *g, unsigned index, struct policy_ref *p, struct worker **ret, struct err *e) {
        cleanup(worker_freep) struct worker *w = calloc(1, sizeof *w);
        if (!w)
                return err_set(e, ENOMEM, "no memory for a worker");
        w->gateway = g;
        w->index = index;
        w->policy = policy_ref_get(p);
        w->limits = gateway_start_limits(&g->start);
        w->ask_timeout_ns = g->start.ask_timeout_ns;
        link_init(&w->judged);
        link_init(&w->asks);
        int r = loop_new(&w->loop, e);
        if (r < 0)
                return r;
        timer_init(&w->trim, w->loop, on_trim);
        struct resolve_server servers[GATEWAY_SERVERS_MAX];
        struct resolver_settings settings = resolver_settings(&g->start, servers);
        r = resolver_new(w->loop, &settings, &w->resolver, e);
        if (r < 0)
                return r;
        r = pool_init(&w->pool);
        r = r < 0 ? r : report_init(&w->report, w->loop, g->events_fd, &g->tally_rate);
        r = r < 0 ? r : upstream_pool_new(w, &w->upstreams);
        if (r < 0)
                return err_set(e, -r, "cannot set up a worker");
        if (g->tls) {
                r = tls_new(g->tls, w->loop, &w->tls, e);
                r = r < 0 ? r : vault_client_new(w->loop, g->tls, g->past, g->start.connect_ns, &w->vault);
                if (r < 0)
                        return err_set(e, -r, "cannot set up TLS for a worker");
        }
        *ret = take_ptr(&w);
        return 0;
}

void *worker_main(void *worker) {
        struct worker *w = worker;
        loop_run(w->loop);
        return NULL;
}

static void revoke_all(struct worker *w) {
        struct verdict over = { .decision = DECISION_ALLOW, .reason = REASON_NONE, .rule = RULE_NONE };
        while (!link_is_empty(&w->judged)) {
                struct judged *j = link_owner(w->judged.next, struct judged, link);
                link_remove(&j->link);
                j->revoke(j, over);
        }
}

void worker_free(struct worker *w) {
        if (!w)
                return;
        acceptor_stop(w);
        if (w->loop) {
                revoke_all(w);
                upstream_pool_free(w->upstreams);
                swap_cache_free(w);
                vault_client_free(w->vault);
                tls_free(w->tls);
                resolver_free(w->resolver);
                loop_drain(w->loop); /* the deferred frees and the last events; pool and resolver are gone */
                report_done(&w->report);
                timer_stop(&w->trim);
        }
        pool_done(&w->pool);
        policy_ref_put(w->policy);
        loop_free(w->loop);
        free(w);
}
