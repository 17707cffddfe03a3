/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection whose TLS is opened, until both handshakes are over and it becomes an HTTP session.
 *
 *     GREETING   the client's ClientHello is read and given back: it must be TLS and name the host that was judged
 *     REACHING   only where a connection rests in the pool and the client offers h2, which those do not speak
 *     ORIGIN     TLS to the origin, verified, offering what the client offered and we can carry; left out when a
 *                connection to it rests in the pool
 *     ACCEPT     TLS with the client, with the leaf that the vault signed and the protocol that the origin chose
 *
 * The origin comes first: what the client is told about protocols is what the origin speaks, so nothing is translated.
 * An origin that cannot be trusted or fails gets not a byte of a request; the client's TLS is accepted all the same, so
 * that it can be told why (502). A client that is not heard of in time, goes away, or sends anything but TLS is closed
 * and on record.
 *
 * Trust: neither end. The gate has judged target and address; they are what the leaf is for, what the origin's
 * certificate must be for, and what every request inside must name. The leaf was made ready by the gate.
 */
#include "gateway/intercept.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "gateway/creds/renew.h"
#include "gateway/creds/vault_client.h"
#include "gateway/h2/h2_session.h"
#include "gateway/origin.h"
#include "gateway/tunnel.h"
#include "gateway/wire/sni.h"
#include "ipc/credentials.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum state {
        INTERCEPT_GREETING,
        INTERCEPT_REACHING,
        INTERCEPT_ORIGIN,
        INTERCEPT_ACCEPT,
        INTERCEPT_GONE,
        INTERCEPT_STATES
};
static const char *const state_names[] = { "greeting", "reaching", "origin", "accept", "gone" };
static_assert(sizeof state_names / sizeof state_names[0] == INTERCEPT_STATES, "one name per state");

#define HTTPS_PORT 443
#define HTTP_1_1 STR("http/1.1")
#define HTTP_2 STR("h2")

struct intercept {
        struct client client;
        struct authority target;
        struct judged judged;
        struct synthetic_hold hold;
        struct gate_call reach;
        struct origin_call origin;
        struct stream *upstream;
        struct tls_leaf *leaf;
        struct timer limit;
        struct task destroy;
        uint64_t opened;
        uint32_t rule, generation;
        uint8_t state;
        uint8_t spoilt;  /* enum reason: the origin failed */
        const char *why; /* of spoilt */
        uint16_t offered_n;
        char offered[SNI_PROTOCOLS_MAX]; /* by the client (ALPN), in wire form */
};

/* what is opened */

bool intercept_expects_tls(const struct worker *worker, const struct authority *target) {
        return target->port == HTTPS_PORT || worker_has_credential(worker, target);
}

/* the end */

static void intercept_enter(struct intercept *intercept, enum state state) {
        log_debug("intercept %llu: %s to %s", (unsigned long long)intercept->client.number,
                  state_names[intercept->state], state_names[state]);
        intercept->state = (uint8_t)state;
}

static void intercept_destroy(struct task *task) {
        struct intercept *intercept = link_owner(task, struct intercept, destroy);
        tls_leaf_unref(intercept->leaf);
        free(intercept);
}

static void intercept_release(struct intercept *intercept) {
        struct worker *worker = intercept->client.worker;

        timer_stop(&intercept->limit);
        judged_remove(&intercept->judged);
        if (intercept->state == INTERCEPT_REACHING)
                gate_cancel(&intercept->reach);

        origin_cancel(&intercept->origin);
        stream_close(take_ptr(&intercept->upstream));
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &intercept->hold, loop_now(worker->loop));

        intercept_enter(intercept, INTERCEPT_GONE);
        loop_defer(worker->loop, &intercept->destroy);
}

static void intercept_report(struct intercept *intercept, enum reason why, const char *detail) {
        struct worker *worker = intercept->client.worker;

        report_event(&worker->report,
                     &(struct event){ .kind = EVENT_TUNNEL_CLOSE,
                                      .connection = intercept->client.number,
                                      .rule = intercept->rule,
                                      .generation = intercept->generation,
                                      .via = intercept->client.via,
                                      .scheme = SCHEME_HTTPS,
                                      .reason = (uint16_t)why,
                                      .allowed = why == REASON_NONE,
                                      .port = intercept->target.port,
                                      .addr = intercept->judged.addr,
                                      .duration_us = (loop_now(worker->loop) - intercept->opened) / 1000,
                                      .domain = host_str(&intercept->target.host),
                                      .detail = str_of(detail) });
}

/* Nothing of a request has passed. The client sees its connection end; how, is all that TLS lets us say. */
static void intercept_end(struct intercept *intercept, enum reason why, const char *detail, bool abort) {
        intercept_report(intercept, why, detail);
        if (abort)
                stream_abort(take_ptr(&intercept->client.stream));
        intercept_release(intercept);
        client_done(&intercept->client);
}

static void intercept_revoke(struct judged *j, struct verdict verdict) {
        struct intercept *intercept = link_owner(j, struct intercept, judged);
        bool refused = verdict.decision != DECISION_ALLOW; /* else the gateway ends */
        if (refused) {
                intercept->rule = verdict.rule;
                intercept->generation = intercept->client.worker->policy->generation;
        }
        intercept_end(intercept, refused ? (enum reason)verdict.reason : REASON_NONE, NULL, true);
}

static void on_limit(struct timer *timer) {
        struct intercept *intercept = link_owner(timer, struct intercept, limit);
        intercept_end(
            intercept, REASON_TIMEOUT,
            intercept->state == INTERCEPT_GREETING ? "no TLS greeting came" : "the TLS handshake took too long", true);
}

/* with the client */

/* From here on it is HTTP like any other. */
static void become_session(struct intercept *intercept) {
        bool http_2 = str_eq(tls_protocol(intercept->client.stream), HTTP_2);
        struct http_inside inside = {
                .target = &intercept->target,
                .hold = intercept->hold,
                .addr = intercept->judged.addr,
                .approved = intercept->judged.asked,
                .spoilt = intercept->spoilt,
                .why = intercept->why,
        };
        struct client client = intercept->client;

        inside.upstream = take_ptr(&intercept->upstream);
        intercept->hold = (struct synthetic_hold){ 0 };
        intercept->client.stream = NULL;
        intercept_release(intercept);

        if (http_2)
                h2_session_start(&client, &inside);
        else
                http_session_start_inside(&client, &inside);
}

static void on_client(struct stream *stream, void *owner);

static void on_accepting(struct intercept *intercept) {
        int r = tls_handshake(intercept->client.stream);
        if (r == 0)
                become_session(intercept);
        else if (r != -EAGAIN) /* an alert that says why may be on its way */
                intercept_end(intercept, REASON_PROTOCOL, tls_failure(intercept->client.stream), false);
}

static void accept_client(struct intercept *intercept, struct str protocol) {
        struct tls_accept how = {
                .leaf = intercept->leaf, .host = &intercept->target.host, .protocol = protocol, .required = true
        };
        int r = tls_accept(intercept->client.worker->tls, take_ptr(&intercept->client.stream), &how,
                           &intercept->client.stream);
        if (r < 0) {
                intercept_end(intercept, REASON_LIMIT, NULL, false);
                return;
        }

        intercept_enter(intercept, INTERCEPT_ACCEPT);
        timer_start(&intercept->limit, intercept->client.worker->limits.header_ns);
        stream_set_owner(intercept->client.stream, on_client, intercept);
        on_accepting(intercept);
}

/* with the origin */

/* A token endpoint's host is spoken to in HTTP/1.1: there an answer can be held until its tokens are kept, whatever
 * happens to the client meanwhile. One that offers nothing else gets HTTP/2, and no renewal. */
static bool is_left_out(const struct intercept *intercept, struct str protocol) {
        const struct credentials *table = intercept->client.worker->gateway->credentials;
        return str_eq(protocol, HTTP_2) && table && renew_has_endpoint(table, &intercept->target) &&
               tls_protocols_contain(str_n(intercept->offered, intercept->offered_n), HTTP_1_1);
}

static bool intercept_offers(const struct intercept *intercept, struct str protocol) {
        return tls_protocols_contain(str_n(intercept->offered, intercept->offered_n), protocol) &&
               !is_left_out(intercept, protocol);
}

/* The origin is not there to choose: the client will be told why, in whatever it speaks. */
static void accept_spoilt(struct intercept *intercept, enum reason reason, const char *why) {
        intercept->spoilt = (uint8_t)reason;
        intercept->why = why;
        accept_client(intercept, intercept_offers(intercept, HTTP_2) && !intercept_offers(intercept, HTTP_1_1)
                                     ? HTTP_2
                                     : HTTP_1_1);
}

static void on_origin(struct origin_call *call) {
        struct intercept *intercept = link_owner(call, struct intercept, origin);

        intercept->upstream = take_ptr(&call->stream);
        if (!intercept->upstream) {
                accept_spoilt(intercept, call->reason, call->why);
                return;
        }

        /* An origin that chose nothing speaks HTTP/1.1, and a client that offers that may hear it. */
        struct str protocol = tls_protocol(intercept->upstream);
        accept_client(intercept, protocol.n > 0 ? protocol : HTTP_1_1);
}

/* Of what the client offers, what can be carried. */
static struct str protocols_for_origin(const struct intercept *intercept) {
        bool http_1 = intercept_offers(intercept, HTTP_1_1), http_2 = intercept_offers(intercept, HTTP_2);

        if (http_1 && http_2)
                return STR("\2h2\10http/1.1");
        if (http_2)
                return STR("\2h2");
        if (http_1)
                return STR("\10http/1.1");

        return str_n(NULL, 0);
}

static void secure_origin(struct intercept *intercept) {
        intercept_enter(intercept, INTERCEPT_ORIGIN);
        timer_stop(&intercept->limit); /* that call has its own */
        intercept->origin.worker = intercept->client.worker;
        intercept->origin.done = on_origin;
        origin_secure(&intercept->origin, take_ptr(&intercept->upstream), &intercept->target,
                      protocols_for_origin(intercept));
}

static void on_reached(struct gate_call *call) {
        struct intercept *intercept = link_owner(call, struct intercept, reach);

        intercept_enter(intercept, INTERCEPT_ORIGIN);
        intercept->upstream = take_ptr(&call->upstream);
        if (!intercept->upstream) {
                accept_spoilt(intercept, (enum reason)call->verdict.reason, call->why);
                return;
        }

        intercept->judged.addr = call->addr;
        if (call->chained)
                intercept->judged.addr = (struct addr){ .family = ADDR_NONE };

        secure_origin(intercept);
}

/* The gate has judged the target before; as a request that is seen it gets a connection of its own. */
static void reach_origin(struct intercept *intercept) {
        intercept_enter(intercept, INTERCEPT_REACHING);
        timer_stop(&intercept->limit);
        intercept->reach = (struct gate_call){ .worker = intercept->client.worker,
                                               .target = intercept->target,
                                               .via = intercept->client.via,
                                               .request_visible = true,
                                               .approved = intercept->judged.asked,
                                               .done = on_reached };
        gate_open(&intercept->reach);
}

static void go_on(struct intercept *intercept) {
        if (intercept->upstream)
                secure_origin(intercept);
        else if (intercept_offers(intercept, HTTP_2))
                reach_origin(intercept);
        else
                accept_client(intercept, HTTP_1_1);
}

/* greeting */

/* Plain HTTP where nobody promised TLS: its requests are visible as they are. */
static void become_plain(struct intercept *intercept) {
        struct client client = intercept->client;
        struct authority target = intercept->target;
        struct synthetic_hold hold = intercept->hold;
        intercept->hold = (struct synthetic_hold){ 0 };
        intercept->client.stream = NULL;
        intercept_release(intercept);
        http_session_start_bound(&client, &target, &hold);
}

static void take_greeting(struct intercept *intercept, enum sniff_kind kind, const struct sniff *seen) {
        switch (kind) {
        case SNIFF_TLS:
                if (seen->has_host && !host_equal(&seen->host, &intercept->target.host)) {
                        intercept_end(intercept, REASON_FRONTING, "the TLS greeting names another host", true);
                        return;
                }
                intercept->offered_n = seen->protocols_n;
                memcpy(intercept->offered, seen->protocols, seen->protocols_n);
                go_on(intercept);

                return;
        case SNIFF_HTTP:
                if (!intercept_expects_tls(intercept->client.worker, &intercept->target)) {
                        become_plain(intercept);
                        return;
                }
                break;
        default:
                break;
        }

        intercept_end(intercept, REASON_PROTOCOL, "TLS was expected", true);
}

/* All that is there, looked at and given back. */
static void on_greeting(struct intercept *intercept) {
        struct stream *stream = intercept->client.stream;
        char *bytes = intercept->client.worker->pool.scratch;
        size_t n = 0, max = intercept->client.worker->limits.header_bytes;
        ssize_t got = 0;

        if (max >= POOL_CHUNK_BYTES)
                max = POOL_CHUNK_BYTES;
        while (n < max && (got = stream_read(stream, bytes + n, max - n)) > 0)
                n += (size_t)got;

        if (got == 0 || (got < 0 && got != -EAGAIN)) {
                intercept_end(intercept, REASON_PROTOCOL, "the client left", false);
                return;
        }

        struct sniff seen;
        enum sniff_kind kind = sniff(str_n(bytes, n), max, &seen);

        if (stream_unread(stream, str_n(bytes, n)) < 0)
                intercept_end(intercept, REASON_LIMIT, NULL, true);
        else if (kind != SNIFF_MORE || n == max)
                take_greeting(intercept, kind, &seen);
}

static void on_client(struct stream *stream, void *owner) {
        struct intercept *intercept = owner;
        switch ((enum state)intercept->state) {
        case INTERCEPT_GREETING:
                on_greeting(intercept);
                return;
        case INTERCEPT_REACHING:
        case INTERCEPT_ORIGIN:
                if (stream->closed)
                        intercept_end(intercept, REASON_PROTOCOL, "the client left", false);
                return;
        case INTERCEPT_ACCEPT:
                on_accepting(intercept);

                return;
        default:
                return;
        }
}

/* the beginning */

static int give_up(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold,
                   enum reason why) {
        struct worker *worker = client->worker;
        struct client copy = *client;
        struct synthetic_hold synthetic_hold = hold ? *hold : (struct synthetic_hold){ 0 };

        call->verdict.decision = DECISION_DENY;
        call->verdict.reason = (uint8_t)why;
        gate_report_refused(client, call, 0);
        stream_close(take_ptr(&call->upstream));

        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &synthetic_hold, loop_now(worker->loop));

        stream_abort(take_ptr(&copy.stream));
        client_done(&copy);

        return -ENOMEM;
}

int intercept_start(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold) {
        struct worker *worker = client->worker;
        struct tls_leaf *leaf = vault_leaf(worker->vault, &call->target.host);
        struct intercept *intercept = leaf ? alloc_zeroed(sizeof *intercept) : NULL;
        if (!intercept)
                return give_up(client, call, hold, leaf ? REASON_LIMIT : REASON_VAULT);

        intercept->client = *client;
        intercept->client.via = call->via;
        intercept->target = call->target;
        intercept->leaf = tls_leaf_ref(leaf);
        intercept->upstream = take_ptr(&call->upstream);
        intercept->opened = loop_now(worker->loop);
        intercept->rule = call->verdict.rule;
        intercept->generation = call->generation;

        if (hold)
                intercept->hold = *hold;

        intercept->judged = (struct judged){
                .target = &intercept->target, .addr = call->addr, .asked = call->asked, .revoke = intercept_revoke
        };
        if (call->chained)
                intercept->judged.addr = (struct addr){ .family = ADDR_NONE };

        link_init(&intercept->judged.link);
        judged_add(worker, &intercept->judged);
        task_init(&intercept->destroy, intercept_destroy);
        timer_init(&intercept->limit, worker->loop, on_limit);
        timer_start(&intercept->limit, worker->limits.header_ns);
        stream_set_owner(intercept->client.stream, on_client, intercept);
        on_greeting(intercept);

        return 0;
}

void intercept_join(const struct client *client, struct gate_call *call) {
        if (call->intercept)
                intercept_start(client, call, NULL);
        else
                tunnel_start(client, call);
}
