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

static void forward_destroy(struct task *task) {
        free(link_owner(task, struct forward, destroy));
}

static void on_dialled(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct forward *forward = owner;
        struct loop *loop = forward->client.worker->loop;

        if (error < 0) {
                forward->call.verdict.decision = DECISION_DENY;
                forward->call.verdict.reason = error == -ETIMEDOUT ? REASON_TIMEOUT : REASON_UPSTREAM;
                gate_report_refused(&forward->client, &forward->call, 0);
                stream_abort(forward->client.stream);
                forward->client.stream = NULL;
                client_done(&forward->client);
        } else {
                forward->call.upstream = stream;
                forward->call.addr = *addr;
                tunnel_start_forward(&forward->client, &forward->call);
        }

        loop_defer(loop, &forward->destroy);
}

/* The policy opens the port for good; only a ratchet takes it away. It is judged by the name that the host has inside.
 */
static bool is_ratcheted(const struct worker *worker, uint16_t port) {
        struct host host;

        if (host_parse(STR(HOST_INTERNAL), &host, NULL) < 0)
                return true;
        return verdict_target(worker_snapshot(worker), &host, port).reason == REASON_RATCHET;
}

int forward_start(const struct client *client) {
        struct worker *worker = client->worker;
        const struct addr loopback = { .family = ADDR_V4, .bytes = { 127, 0, 0, 1 } };
        struct forward *forward = calloc(1, sizeof *forward);
        int r = forward ? 0 : -ENOMEM;

        if (forward) {
                forward->client = *client;
                task_init(&forward->destroy, forward_destroy);
                forward->call.worker = worker;
                forward->call.generation = worker->policy->generation;
                forward->call.verdict =
                    (struct verdict){ .decision = DECISION_ALLOW, .reason = REASON_ALLOWED_PRIVATE, .rule = RULE_NONE };
                forward->call.target.port = client->listener->forward_port;
                host_from_addr(&loopback, &forward->call.target.host);

                if (is_ratcheted(worker, client->listener->forward_port)) {
                        forward->call.verdict = (struct verdict){ .reason = REASON_RATCHET, .rule = RULE_NONE };
                        gate_report_refused(&forward->client, &forward->call, 0);
                        r = -EACCES;
                }
        }

        if (forward && r == 0) {
                r = dial_start(worker->loop, &loopback, 1, client->listener->forward_port, worker->limits.connect_ns,
                               on_dialled, forward, &forward->dial);
        }

        if (r < 0) {
                free(forward);
                struct client copy = *client;
                client_done(&copy);
        }

        return r;
}
