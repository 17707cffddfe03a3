/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a 101 the connection belongs to another protocol: bytes both ways, those of the client not looked at, with the
 * limits of a tunnel. What comes back from a host that has credentials is still searched.
 */
#include "gateway/http/http_swap.h"
#include "gateway/load/quota.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

static void on_relay_done(struct relay *r, enum relay_end how, int error) {
        struct http_session *session = link_owner(r, struct http_switched, relay)->session;
        (void)how;
        (void)error;
        session->exchange.bytes_out += r->flow[RELAY_CLIENT].bytes;
        session->exchange.bytes_in += r->flow[RELAY_SERVER].bytes;
        http_exchange_record(session, true);
        http_session_end(session, false);
}

static bool on_relay_sent(struct relay *r, size_t n) {
        struct http_session *session = link_owner(r, struct http_switched, relay)->session;
        return quota_sent(session->client.worker->gateway->quota, session->exchange.host_bytes, n);
}

/* What comes back must be searched: an exchange like any other, whose bodies end when the connection does. */
static bool begin_searched(struct http_session *session) {
        session->exchange.request = session->exchange.response = (struct http_body){ .kind = BODY_UNTIL_CLOSE };
        session->exchange.keep_client = session->exchange.keep_upstream = false;
        if (session->exchange.back)
                pool_chunk_put(http_pool(session), take_ptr(&session->exchange.back));
        http_session_enter(session, HTTP_EXCHANGE);
        http_session_limit(session, http_settings(session)->tunnel_idle_ns);
        return true;
}

/* Once the 101 is out. */
bool http_switch_step(struct http_session *session) {
        int r = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);
        if (r == -EAGAIN)
                return false;
        if (r == 0 && http_swap_is_searching(session))
                return begin_searched(session);

        if (r == 0 && session->in) {
                r = stream_unread(session->client.stream, str_n(session->in->bytes + session->in->at, session->in->n));
                pool_chunk_put(http_pool(session), take_ptr(&session->in));
        }

        session->switched = r == 0 ? calloc(1, sizeof *session->switched) : NULL;
        if (!session->switched) {
                http_pump_fail_client(session, REASON_UPSTREAM);
                return false;
        }

        timer_stop(&session->limit);
        session->switched->relay.done = on_relay_done;
        session->switched->relay.account = on_relay_sent;
        session->switched->session = session;
        http_session_enter(session, HTTP_RELAY);
        relay_start(&session->switched->relay, http_pool(session), take_ptr(&session->client.stream),
                    take_ptr(&session->exchange.upstream), http_settings(session)->tunnel_idle_ns);

        return false;
}

void http_switch_stop(struct http_session *session, bool abort) {
        struct relay *relay = &session->switched->relay;
        session->exchange.bytes_out += relay->flow[RELAY_CLIENT].bytes;
        session->exchange.bytes_in += relay->flow[RELAY_SERVER].bytes;
        relay_stop(relay, abort);
}
