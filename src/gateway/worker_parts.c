/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker_parts.h"

#include "base/cleanup.h"
#include "gateway/acceptor.h"
#include "gateway/agent_session.h"
#include "gateway/creds/swap.h"
#include "gateway/creds/vault_client.h"
#include "gateway/http/http_session.h"
#include "gateway/ssh_session.h"
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>

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
        link_init(&w->http_sessions);
        link_init(&w->judged);
        link_init(&w->asks);
        link_init(&w->programs);
        link_init(&w->ssh_sessions);
        link_init(&w->agent_sessions);
        int r = loop_new(&w->loop, e);
        if (r < 0)
                return r;
        timer_init(&w->trim, w->loop, worker_on_trim);
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

void worker_free(struct worker *w) {
        if (!w)
                return;
        acceptor_stop(w);
        if (w->loop) {
                worker_revoke_all(w);
                http_sessions_end(w);
                ssh_sessions_end(w);
                agent_sessions_end(w);
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
