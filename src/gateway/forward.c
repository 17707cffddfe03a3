/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/forward.h"

#include "gateway/tunnel.h"

#include <errno.h>
#include <stdlib.h>

struct forward {
        struct client client;
        struct gate_call call; /* filled in by hand: the gate is not asked */
        struct dial *dial;
        struct task destroy;
};

static void destroy(struct task *t) {
        free(link_owner(t, struct forward, destroy));
}

static void on_dialled(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct forward *f = owner;
        struct loop *l = f->client.worker->loop;
        if (error < 0) {
                f->call.verdict.decision = DECISION_DENY;
                f->call.verdict.reason = error == -ETIMEDOUT ? REASON_TIMEOUT : REASON_UPSTREAM;
                tunnel_report_refused(&f->client, &f->call, 0);
                stream_abort(f->client.stream);
                f->client.stream = NULL;
                client_done(&f->client);
        } else {
                f->call.upstream = s;
                f->call.addr = *addr;
                tunnel_start_forward(&f->client, &f->call);
        }
        loop_defer(l, &f->destroy);
}

/* The policy opens the port for good; only a ratchet takes it away. It is judged by the name that the host has inside.
 */
static bool is_ratcheted(const struct worker *w, uint16_t port) {
        struct host host;

        if (host_parse(STR(HOST_INTERNAL), &host, NULL) < 0)
                return true;
        return verdict_target(worker_snapshot(w), &host, port).reason == REASON_RATCHET;
}

int forward_start(const struct client *c) {
        struct worker *w = c->worker;
        const struct addr loopback = { .family = ADDR_V4, .bytes = { 127, 0, 0, 1 } };
        struct forward *f = calloc(1, sizeof *f);
        int r = f ? 0 : -ENOMEM;
        if (f) {
                f->client = *c;
                task_init(&f->destroy, destroy);
                f->call.worker = w;
                f->call.generation = w->policy->generation;
                f->call.verdict =
                    (struct verdict){ .decision = DECISION_ALLOW, .reason = REASON_ALLOWED_PRIVATE, .rule = RULE_NONE };
                f->call.target.port = c->listener->forward_port;
                host_from_addr(&loopback, &f->call.target.host);
                if (is_ratcheted(w, c->listener->forward_port)) {
                        f->call.verdict = (struct verdict){ .reason = REASON_RATCHET, .rule = RULE_NONE };
                        tunnel_report_refused(&f->client, &f->call, 0);
                        r = -EACCES;
                }
        }
        if (f && r == 0) {
                r = dial_start(w->loop, &loopback, 1, c->listener->forward_port, w->limits.connect_ns, on_dialled, f,
                               &f->dial);
        }
        if (r < 0) {
                free(f);
                struct client copy = *c;
                client_done(&copy);
        }
        return r;
}
