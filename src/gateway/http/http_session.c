/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP session: one client connection to the proxy, request after request.
 *
 *     HEAD -> OPENING -> JUDGED -> EXCHANGE -> HEAD   a request that passes; a pooled connection needs no OPENING
 *     HEAD -> EXAMINING -> JUDGED, ASKING -> JUDGED   where its body decides, or a person who is asked about it
 *     HEAD -> KEEPING -> JUDGED, VAULT -> JUDGED      where its body is signed, or the vault is asked for a credential
 *     HEAD or JUDGED -> ANSWER -> HEAD or LINGER      a refusal, which never touches the network behind
 *     HEAD -> OPENING -> (handed on)                  CONNECT: whoever started the session takes client and upstream
 *     EXCHANGE -> SWITCH -> RELAY                     after a valid 101
 *
 * This file drives: it has a step for each state, and starts sessions. The states themselves are http_state.c's, what
 * belongs to one request and its response is http_exchange.c's. What serves an exchange and hears of something outside
 * the session's turn comes back through session->resume.
 *
 * Trusts nobody: neither the client's bytes nor the origin's. Each request is judged by itself, pipelined ones one
 * after another, each with the policy of its own moment. The target is parsed once into call.target, and that is what
 * is judged, dialled, written into Host and recorded. The session owns the client, and the upstream while an exchange
 * lasts; buffers are borrowed from the worker's pool while bytes are on their way, so a resting session holds none.
 * Between two callbacks nothing points into the scratch area.
 */
#include "gateway/http/http_internal.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/http/http_examine.h"
#include "gateway/http/http_swap.h"
#include "gateway/refusal.h"

#include <errno.h>
#include <stdlib.h>

enum { LINGER_BYTES = 1 << 20, STEPS_PER_TURN = 32 };

static void session_run(struct http_session *session);

static void http_session_destroy(struct task *task) {
        struct http_session *session = link_owner(task, struct http_session, destroy);
        free(session->switched);
        free(session->secure);
        free(session);
}

/* Reads and throws away, so that the client gets our last bytes before the kernel would reset the connection. */
static bool linger_step(struct http_session *session) {
        ssize_t got = stream_read(session->client.stream, http_pool(session)->scratch, POOL_SCRATCH_BYTES);
        if (got == -EAGAIN)
                return false;

        session->lingered += got > 0 ? (uint64_t)got : 0;
        if (got > 0 && session->lingered < LINGER_BYTES)
                return true;

        http_session_end(session, false);
        return false;
}

static bool answer_step(struct http_session *session) {
        int r = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);
        if (r == -EAGAIN)
                return false;

        if (r < 0)
                http_session_end(session, true);
        else
                http_session_next(session);

        return session->state != HTTP_GONE;
}

/* CONNECT was let through: the client is told, then it and the upstream belong to a tunnel. */
static void begin_tunnel(struct http_session *session) {
        static const struct str established = STR("HTTP/1.1 200 Connection established\r\n\r\n");
        struct stream *client = session->client.stream;
        ssize_t put = stream_write(client, established);
        int r = put == (ssize_t)established.n ? 0 : -EPIPE; /* a socket that cannot take 39 bytes is not read from */
        if (r == 0 && session->in)
                r = stream_unread(client, str_n(session->in->bytes + session->in->at, session->in->n));

        if (r < 0) {
                stream_close(take_ptr(&session->call.upstream));
                http_session_end(session, true);
                return;
        }

        timer_stop(&session->limit);
        session->client.via = VIA_CONNECT;
        session->connected(&session->client, &session->call);

        /* What is left of the session holds neither stream nor place. */
        session->client.stream = NULL;
        link_remove(&session->of_worker);
        http_session_enter(session, HTTP_GONE);
        task_cancel(&session->later);
        http_exchange_done(session);

        if (session->in)
                pool_chunk_put(http_pool(session), take_ptr(&session->in));

        loop_defer(session->client.worker->loop, &session->destroy);
}

/* The connection that the gate and TLS have opened is there, or is not to be had (call.verdict). */
static void session_opened(struct http_session *session) {
        struct gate_call *c = &session->call;

        http_session_enter(session, HTTP_JUDGED);

        if (session->exchange.connect && gate_asks_apart(c->question) && c->verdict.decision == DECISION_ALLOW) {
                http_refuse_as(session, 200, "text/plain", STR("a person agreed\n"));
        } else if (session->exchange.connect && gate_is_through(c)) {
                begin_tunnel(session);
                return;
        } else if (session->exchange.connect) {
                http_refuse(session);
        } else {
                session->exchange.upstream = take_ptr(&c->upstream);
                if (c->chained)
                        c->addr.family = ADDR_NONE; /* the proxy's own address is not the target's */
                http_request_resume(session);
        }

        session_run(session);
}

static void on_secured(struct origin_call *call) {
        struct http_session *session = link_owner(call, struct http_secure, origin)->session;

        session->secure->securing = false;
        session->call.upstream = take_ptr(&call->stream);
        if (!session->call.upstream) {
                refusal_decide(&session->call.verdict, call->reason);
                session->call.error = call->error;
                session->call.why = call->why;
        }

        session_opened(session);
}

static void on_opened(struct gate_call *c) {
        struct http_session *session = link_owner(c, struct http_session, call);
        if (session->secure && c->upstream)
                http_secure_open(session, on_secured);
        else
                session_opened(session);
}

void http_session_open(struct http_session *session) {
        session->call.worker = session->client.worker;
        session->call.request_visible = !session->exchange.connect;
        session->call.done = on_opened;
        http_session_enter(session, HTTP_OPENING);
        timer_stop(&session->limit); /* the gate has limits of its own */
        gate_open(&session->call);
}

static void take_head(struct http_session *session, struct str bytes) {
        static _Thread_local struct http1_request request; /* large, and needed only until this function returns */
        size_t max = http_settings(session)->header_bytes;

        if (!session->partial && !session->blank_line && str_starts(bytes, STR("\r\n"))) {
                session->blank_line = true; /* one, as old clients send it behind a body (RFC 9112, 2.2) */
                if (http_session_keep(session, bytes, 2) < 0)
                        http_session_end(session, true);
                return;
        }

        if (max == 0 || max > POOL_CHUNK_BYTES)
                max = POOL_CHUNK_BYTES;

        enum http1_result r = http1_request_parse(&session->progress, bytes, max, &request);
        if (r == HTTP1_MORE) {
                if (!session->partial)
                        http_session_limit(session,
                                           http_settings(session)->header_ns); /* once: dripping bytes buys no time */
                if (http_session_keep(session, bytes, 0) < 0)
                        http_session_end(session, true);

                session->partial = true;
                return;
        }

        if (r != HTTP1_OK) {
                http_exchange_begin(session, &(struct http1_request){ .head.close = true });
                session->exchange.request.done = false;
                bool large = r == HTTP1_TOO_LARGE || r == HTTP1_TOO_MANY;
                http_refuse_bytes(session, large ? 431 : 400, REASON_PROTOCOL, http1_result_text(r));

                return;
        }

        timer_stop(&session->limit);
        http_request_take(session, &request);
        if (session->state != HTTP_GONE && http_session_keep(session, bytes, request.head.bytes) < 0)
                http_session_end(session, true);
}

static bool head_step(struct http_session *session) {
        struct pool_chunk *in = session->in;
        if (in && !session->partial) {
                take_head(session, str_n(in->bytes + in->at, in->n));
                return session->state != HTTP_GONE;
        }

        char *to = http_pool(session)->scratch;
        size_t had = 0;

        if (in) {
                if (in->at > 0)
                        memmove(in->bytes, in->bytes + in->at, in->n);

                in->at = 0;
                had = in->n;
                to = in->bytes;
        }

        ssize_t got = stream_read(session->client.stream, to + had, POOL_CHUNK_BYTES - had);
        if (got == -EAGAIN)
                return false;

        if (got <= 0) {
                http_session_end(session, false);
                return false;
        }

        if (in)
                in->n += (size_t)got;

        take_head(session, str_n(to, had + (size_t)got));
        return session->state != HTTP_GONE;
}

/* Whether the client has left before its connection was there. While it is only dialled, one that sent all it has to
 * say ahead and then its end is still served. */
static bool client_gave_up(struct http_session *session) {
        if (session->state == HTTP_ASKING)
                return gate_is_held(&session->exchange.examine->hold) && stream_peer_left(session->client.stream);
        if (gate_is_held(&session->call))
                return stream_peer_left(session->client.stream);
        if (!session->exchange.connect || !session->client.stream->closed || session->in)
                return false;

        char *bytes = http_pool(session)->scratch;
        ssize_t got = stream_read(session->client.stream, bytes, POOL_CHUNK_BYTES);

        return got != -EAGAIN && (got <= 0 || http_session_keep(session, str_n(bytes, (size_t)got), 0) < 0);
}

/* Nobody is asked, nothing is dialled any more for a client that gave up; its attempt is on record. */
static bool opening_step(struct http_session *session) {
        if (client_gave_up(session)) {
                http_refusal_record(session);
                http_session_end(session, false);
        }
        return false;
}

static bool http_session_step(struct http_session *session) {
        switch ((enum http_state)session->state) {
        case HTTP_OPENING:
        case HTTP_ASKING:
                return opening_step(session);
        case HTTP_HEAD:
                return head_step(session);
        case HTTP_KEEPING:
                return http_swap_keep_step(session);
        case HTTP_EXAMINING:
                return http_examine_step(session);
        case HTTP_DRAINING:
                return http_examine_drain_step(session);
        case HTTP_EXCHANGE:
                return http_pump_step(session);
        case HTTP_ANSWER:
                return answer_step(session);
        case HTTP_SWITCH:
                return http_switch_step(session);
        case HTTP_LINGER:
                return linger_step(session);
        default:
                return false;
        }
}

static void session_run(struct http_session *session) {
        for (unsigned i = 0; i < STEPS_PER_TURN; i++)
                if (!http_session_step(session))
                        return;
        if (session->state != HTTP_GONE)
                loop_soon(session->client.worker->loop, &session->later); /* the others' turn */
}

/* Something came outside its turn. */
static void session_resume(struct http_session *session, int error) {
        if (error < 0)
                http_pump_fail(session, error);
        if (session->state != HTTP_GONE)
                session_run(session);
}

static void on_later(struct task *task) {
        session_run(link_owner(task, struct http_session, later));
}

static void on_client(struct stream *stream, void *owner) {
        (void)stream;
        session_run(owner);
}

static void on_limit(struct timer *timer) {
        struct http_session *session = link_owner(timer, struct http_session, limit);
        if (session->state == HTTP_HEAD && session->partial) {
                http_exchange_begin(session, &(struct http1_request){ .head.close = true });
                session->exchange.request.done = false;
                http_refuse_bytes(session, 408, REASON_TIMEOUT, "The request's header did not arrive in time");
        } else if (session->state == HTTP_EXCHANGE) {
                http_pump_timeout(session);
        } else {
                http_session_end(session, false);
                return;
        }

        session_run(session);
}

static struct http_session *session_make(const struct client *client, const struct authority *bound,
                                         const struct synthetic_hold *hold) {
        struct http_session *session = alloc_zeroed(sizeof *session);
        if (!session)
                return NULL;

        session->client = *client;
        session->bound = bound != NULL;
        if (bound)
                session->call.target = *bound;
        if (hold)
                session->hold = *hold;

        link_init(&session->exchange.judged.link);
        session->resume = session_resume;
        task_init(&session->later, on_later);
        task_init(&session->destroy, http_session_destroy);
        timer_init(&session->limit, client->worker->loop, on_limit);

        return session;
}

static int begin_session(const struct client *client, struct http_session *session) {
        if (!session)
                return client_has_no_room(client);

        stream_set_owner(session->client.stream, on_client, session);
        link_append(&client->worker->http_sessions, &session->of_worker);
        upstream_pool_waits(client->worker->upstreams, true);
        http_session_limit(session, http_settings(session)->header_ns);
        session_run(session);

        return 0;
}

int http_session_start(const struct client *client, http_connected *connected) {
        struct http_session *session = session_make(client, NULL, NULL);

        if (session)
                session->connected = connected;

        return begin_session(client, session);
}

int http_session_start_bound(const struct client *client, const struct authority *target,
                             const struct synthetic_hold *hold) {
        return begin_session(client, session_make(client, target, hold));
}

int http_session_start_inside(const struct client *client, const struct http_inside *inside) {
        struct http_secure *secure = calloc(1, sizeof *secure);
        struct http_session *session = secure ? session_make(client, inside->target, &inside->hold) : NULL;
        if (!session) {
                free(secure);
                stream_close(inside->upstream);
                return begin_session(client, NULL);
        }

        secure->session = session;
        secure->ready = inside->upstream;
        secure->addr = inside->addr;
        secure->spoilt = inside->spoilt;
        secure->why = inside->why;
        session->secure = secure;
        session->call.approved = inside->approved;

        return begin_session(client, session);
}

int http_session_start_api(const struct client *client) {
        struct http_session *session = session_make(client, NULL, NULL);

        if (session && http_secure_become_api(session) < 0) {
                free(session);
                session = NULL;
        }
        return begin_session(client, session);
}

void http_sessions_end(struct worker *worker) {
        while (!link_is_empty(&worker->http_sessions))
                http_session_end(link_owner(worker->http_sessions.next, struct http_session, of_worker), false);
}
