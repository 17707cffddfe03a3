/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker_parts.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "gateway/acceptor.h"
#include "gateway/creds/swap.h"
#include "gateway/creds/vault_client.h"
#include "gateway/http/http_session.h"
#include "gateway/ssh/agent_session.h"
#include "gateway/ssh/ssh_session.h"
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
                .timeout_ns = min_of(start->connect_ns, RESOLVE_TIMEOUT_NS),
        };
}

static void worker_freep(struct worker **worker) {
        worker_free(*worker);
}

int worker_new(struct gateway *gateway, unsigned index, struct policy_ref *ref, struct worker **ret, struct err *err) {
        cleanup(worker_freep) struct worker *w = calloc(1, sizeof *w);
        if (!w)
                return err_set(err, ENOMEM, "no memory for a worker");

        w->gateway = gateway;
        w->index = index;
        w->policy = policy_ref_get(ref);
        w->limits = gateway_start_limits(&gateway->start);
        w->ask_timeout_ns = gateway->start.ask_timeout_ns;
        link_init(&w->http_sessions);
        link_init(&w->judged);
        link_init(&w->asks);
        link_init(&w->programs);
        link_init(&w->ssh_sessions);
        link_init(&w->agent_sessions);

        int r = loop_new(&w->loop, err);
        if (r < 0)
                return r;

        timer_init(&w->trim, w->loop, worker_on_trim);
        struct resolve_server servers[GATEWAY_SERVERS_MAX];
        struct resolver_settings settings = resolver_settings(&gateway->start, servers);
        r = resolver_new(w->loop, &settings, &w->resolver, err);
        if (r < 0)
                return r;

        r = pool_init(&w->pool);
        if (r >= 0)
                r = report_init(&w->report, w->loop, gateway->events_fd, &gateway->tally_rate);
        if (r >= 0)
                r = upstream_pool_new(w, &w->upstreams);
        if (r < 0)
                return err_set(err, -r, "cannot set up a worker");

        if (gateway->tls) {
                r = tls_new(gateway->tls, w->loop, &w->tls, err);
                if (r >= 0)
                        r = vault_client_new(w->loop, gateway->tls, gateway->past, gateway->start.connect_ns,
                                             &w->vault);
                if (r < 0)
                        return err_set(err, -r, "cannot set up TLS for a worker");
        }

        *ret = take_ptr(&w);
        return 0;
}

void worker_free(struct worker *worker) {
        if (!worker)
                return;

        acceptor_stop(worker);

        if (worker->loop) {
                worker_revoke_all(worker);
                http_sessions_end(worker);
                ssh_sessions_end(worker);
                agent_sessions_end(worker);
                upstream_pool_free(worker->upstreams);
                swap_cache_free(worker);
                vault_client_free(worker->vault);
                tls_free(worker->tls);
                resolver_free(worker->resolver);
                loop_drain(worker->loop); /* the deferred frees and the last events; pool and resolver are gone */
                report_done(&worker->report);
                timer_stop(&worker->trim);
        }

        pool_done(&worker->pool);
        policy_ref_put(worker->policy);
        loop_free(worker->loop);
        free(worker);
}
