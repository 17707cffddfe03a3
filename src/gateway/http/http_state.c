/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a session, and the one place that changes it: http_session_enter(). Below everything that decides what
 * comes next: from here on down nobody calls back up.
 */
#include "gateway/http/http_internal.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

#define LINGER_NS (2 * NS_PER_SECOND)

static const char *const state_names[] = {
        [HTTP_HEAD] = "head",           [HTTP_JUDGED] = "judged",     [HTTP_OPENING] = "opening",
        [HTTP_ASKING] = "asking",       [HTTP_VAULT] = "vault",       [HTTP_KEEPING] = "keeping",
        [HTTP_EXAMINING] = "examining", [HTTP_DRAINING] = "draining", [HTTP_EXCHANGE] = "exchange",
        [HTTP_ANSWER] = "answer",       [HTTP_SWITCH] = "switch",     [HTTP_RELAY] = "relay",
        [HTTP_LINGER] = "linger",       [HTTP_GONE] = "gone",
};
_Static_assert(sizeof state_names / sizeof *state_names == HTTP_STATES, "a name for each state");

void http_session_enter(struct http_session *session, enum http_state state) {
        log_debug("http %llu: %s -> %s", (unsigned long long)session->client.number, state_names[session->state],
                  state_names[state]);
        if ((session->state == HTTP_HEAD) != (state == HTTP_HEAD))
                upstream_pool_waits(session->client.worker->upstreams, state == HTTP_HEAD);
        session->state = (uint8_t)state;
}

void http_session_limit(struct http_session *session, uint64_t ns) {
        if (ns > 0)
                timer_start(&session->limit, ns);
        else
                timer_stop(&session->limit);
}

/* A connection that carried no request is on record all the same: its origin was reached. */
static void end_secure(struct http_session *session) {
        http_secure_done(session);
        if (session->secure->used)
                return;

        report_event(
            &session->client.worker->report,
            &(struct event){ .kind = EVENT_TUNNEL_CLOSE,
                             .via = session->client.via,
                             .scheme = SCHEME_HTTPS,
                             .connection = session->client.number,
                             .duration_us = (loop_now(session->client.worker->loop) - session->client.since) / 1000,
                             .rule = RULE_NONE,
                             .generation = session->client.worker->policy->generation,
                             .reason = session->secure->spoilt ? session->secure->spoilt : REASON_ALLOWED,
                             .port = session->call.target.port,
                             .allowed = session->secure->spoilt == REASON_NONE,
                             .addr = session->secure->addr,
                             .domain = host_str(&session->call.target.host) });
}

void http_session_end(struct http_session *session, bool abort) {
        if (session->state == HTTP_GONE)
                return;

        struct worker *worker = session->client.worker;
        if (session->state == HTTP_OPENING)
                gate_cancel(&session->call);
        if (session->secure)
                end_secure(session);

        http_session_enter(session, HTTP_GONE);
        link_remove(&session->of_worker);
        timer_stop(&session->limit);
        task_cancel(&session->later);
        http_exchange_done(session);

        if (session->in)
                pool_chunk_put(http_pool(session), take_ptr(&session->in));
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &session->hold, loop_now(worker->loop));
        if (abort)
                stream_abort(take_ptr(&session->client.stream));

        client_done(&session->client);
        loop_defer(worker->loop, &session->destroy);
}

static void session_linger(struct http_session *session) {
        http_exchange_done(session);

        if (stream_finish(session->client.stream) < 0) {
                http_session_end(session, false);
                return;
        }

        session->lingered = 0;
        http_session_enter(session, HTTP_LINGER);
        http_session_limit(session, LINGER_NS);
}

void http_session_next(struct http_session *session) {
        if (!session->exchange.keep_client) {
                session_linger(session);
                return;
        }

        http_exchange_done(session);
        session->progress = (struct http1_progress){ 0 };
        session->partial = false;
        session->blank_line = false;
        http_session_enter(session, HTTP_HEAD);
        http_session_limit(session, http_settings(session)->idle_ns);
}

/* bytes of the client's */

int http_session_keep(struct http_session *session, struct str bytes, size_t used) {
        size_t left = bytes.n - used;

        if (session->in) {
                session->in->at += used;
                session->in->n = left;
                if (left == 0)
                        pool_chunk_put(http_pool(session), take_ptr(&session->in));

                return 0;
        }

        if (left == 0)
                return 0;

        session->in = pool_chunk_get(http_pool(session));
        if (!session->in)
                return -ENOMEM;

        session->in->at = 0;
        session->in->n = left;
        memcpy(session->in->bytes, bytes.p + used, left);

        return 0;
}

int http_session_body_bytes(struct http_session *session, struct str *ret) {
        if (session->in) {
                *ret = str_n(session->in->bytes + session->in->at, session->in->n);
                return 0;
        }

        char *scratch = http_pool(session)->scratch;
        ssize_t got = stream_read(session->client.stream, scratch, POOL_CHUNK_BYTES);
        if (got < 0)
                return (int)got;
        if (got <= 0)
                return -EPIPE;

        *ret = str_n(scratch, (size_t)got);
        return 0;
}
