/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a 101 the connection belongs to another protocol: bytes both ways, those of the client not looked at, with the
 * limits of a tunnel. What comes back from a host that has credentials is still searched.
 */
#include "gateway/http/http_swap.h"
#include "gateway/quota.h"

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
static bool begin_searched(struct http_session *s) {
        s->exchange.request = s->exchange.response = (struct http_body){ .kind = BODY_UNTIL_CLOSE };
        s->exchange.keep_client = s->exchange.keep_upstream = false;
        if (s->exchange.back)
                pool_chunk_put(http_pool(s), take_ptr(&s->exchange.back));
        http_session_enter(s, HTTP_EXCHANGE);
        http_session_limit(s, http_settings(s)->tunnel_idle_ns);
        return true;
}

/* Once the 101 is out. */
bool http_switch_step(struct http_session *s) {
        int r = http_flow_flush(&s->exchange.down, http_pool(s), s->client.stream);
        if (r == -EAGAIN)
                return false;
        if (r == 0 && http_swap_is_searching(s))
                return begin_searched(s);

        if (r == 0 && s->in) {
                r = stream_unread(s->client.stream, str_n(s->in->bytes + s->in->at, s->in->n));
                pool_chunk_put(http_pool(s), take_ptr(&s->in));
        }

        s->switched = r == 0 ? calloc(1, sizeof *s->switched) : NULL;
        if (!s->switched) {
                http_pump_fail_client(s, REASON_UPSTREAM);
                return false;
        }

        timer_stop(&s->limit);
        s->switched->relay.done = on_relay_done;
        s->switched->relay.account = on_relay_sent;
        s->switched->session = s;
        http_session_enter(s, HTTP_RELAY);
        relay_start(&s->switched->relay, http_pool(s), take_ptr(&s->client.stream), take_ptr(&s->exchange.upstream),
                    http_settings(s)->tunnel_idle_ns);

        return false;
}

void http_switch_stop(struct http_session *session, bool abort) {
        struct relay *relay = &session->switched->relay;
        session->exchange.bytes_out += relay->flow[RELAY_CLIENT].bytes;
        session->exchange.bytes_in += relay->flow[RELAY_SERVER].bytes;
        relay_stop(relay, abort);
}
