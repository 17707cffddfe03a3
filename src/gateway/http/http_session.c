/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP session: one client connection to the proxy, request after request.
 *
 *     HEAD -> OPENING -> EXCHANGE -> HEAD     a request that passes; a pooled connection needs no OPENING
 *     HEAD -> ANSWER -> HEAD or LINGER        a refusal, which never touches the network behind
 *     HEAD -> OPENING -> (tunnel)             CONNECT: the tunnel takes client and upstream over
 *     EXCHANGE -> SWITCH -> RELAY             after a valid 101
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
#include "gateway/intercept.h"
#include "gateway/tunnel.h"

#include <errno.h>
#include <stdlib.h>

#define LINGER_NS (2 * NS_PER_SECOND)
enum { LINGER_BYTES = 1 << 20, STEPS_PER_TURN = 32 };

static const char *const state_names[] = {
        [HTTP_HEAD] = "head",           [HTTP_OPENING] = "opening",   [HTTP_KEEPING] = "keeping",
        [HTTP_EXAMINING] = "examining", [HTTP_DRAINING] = "draining", [HTTP_EXCHANGE] = "exchange",
        [HTTP_ANSWER] = "answer",       [HTTP_SWITCH] = "switch",     [HTTP_RELAY] = "relay",
        [HTTP_LINGER] = "linger",       [HTTP_GONE] = "gone",
};
_Static_assert(sizeof state_names / sizeof *state_names == HTTP_STATES, "a name for each state");

void http_session_enter(struct http_session *s, enum http_state state) {
        log_debug("http %llu: %s -> %s", (unsigned long long)s->client.number, state_names[s->state],
                  state_names[state]);
        if ((s->state == HTTP_HEAD) != (state == HTTP_HEAD))
                upstream_pool_waits(s->client.worker->upstreams, state == HTTP_HEAD);
        s->state = (uint8_t)state;
}

void http_session_limit(struct http_session *session, uint64_t ns) {
        if (ns > 0)
                timer_start(&session->limit, ns);
        else
                timer_stop(&session->limit);
}

static void http_session_destroy(struct task *t) {
        struct http_session *session = link_owner(t, struct http_session, destroy);
        free(session->switched);
        free(session->secure);
        free(session);
}

/* Lets go of everything that belonged to one request. */
static void forget_request(struct http_session *s) {
        judged_remove(&s->judged);
        stream_close(take_ptr(&s->upstream));
        http_examine_free(s);
        http_swap_free(s);
        http_flow_done(&s->up, http_pool(s));
        buf_done(&s->trailers);
        http_flow_done(&s->down, http_pool(s));

        if (s->back)
                pool_chunk_put(http_pool(s), take_ptr(&s->back));
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

void http_session_end(struct http_session *s, bool abort) {
        if (s->state == HTTP_GONE)
                return;

        struct worker *worker = s->client.worker;
        if (s->state == HTTP_OPENING && !(s->examine && s->examine->holding))
                gate_cancel(&s->call);
        if (s->secure)
                end_secure(s);

        http_session_enter(s, HTTP_GONE);
        link_remove(&s->of_worker);
        timer_stop(&s->limit);
        task_cancel(&s->later);
        forget_request(s);

        if (s->in)
                pool_chunk_put(http_pool(s), take_ptr(&s->in));
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &s->hold, loop_now(worker->loop));
        if (abort)
                stream_abort(take_ptr(&s->client.stream));

        client_done(&s->client);
        loop_defer(worker->loop, &s->destroy);
}

/* The head as the client meant it: without secrets. */
static struct str own_head(const struct http_session *session) {
        return buf_str(session->swap ? &session->swap->plain : &session->up.head);
}

/* Of the request that was written: "METHOD SP path ...". */
struct str http_session_method(const struct http_session *session) {
        return str_first(own_head(session), session->method_n);
}

struct str http_session_path(const struct http_session *session) {
        return str_first(str_skip(own_head(session), session->method_n + 1u), session->path_n);
}

struct str http_session_target(const struct http_session *session) {
        struct str rest = str_skip(own_head(session), session->method_n + 1u);
        ptrdiff_t end = str_find(rest, ' ');

        return end < 0 ? str_first(rest, session->path_n) : str_first(rest, (size_t)end);
}

void http_session_record(struct http_session *session, bool allowed) {
        struct worker *worker = session->client.worker;
        struct event ev = {
                .kind = EVENT_REQUEST,
                .via = session->client.via,
                .scheme = session->secure ? SCHEME_HTTPS : SCHEME_HTTP,
                .connection = session->client.number,
                .bytes_in = session->bytes_in,
                .bytes_out = session->bytes_out,
                .duration_us = (clock_ns() - session->since) / 1000,
                .rule = session->call.verdict.rule,
                .generation = session->call.generation,
                .reason = session->call.verdict.reason,
                .port = session->call.target.port,
                .status = session->status,
                .allowed = allowed,
                .addr = session->call.addr,
                .domain = host_str(&session->call.target.host),
                .method = http_session_method(session),
                .path = str_first(http_session_path(session), EVENT_TEXT_MAX),
                .swapped = session->swap ? buf_str(&session->swap->names) : STR(""),
                .detail = str_of(session->call.why),
                .act = session->examine ? buf_str(&session->examine->examine->act) : STR(""),
        };

        report_event(&worker->report, &ev);
}

static void session_linger(struct http_session *session) {
        forget_request(session);

        if (stream_finish(session->client.stream) < 0) {
                http_session_end(session, false);
                return;
        }

        session->lingered = 0;
        http_session_enter(session, HTTP_LINGER);
        http_session_limit(session, LINGER_NS);
}

void http_session_next(struct http_session *session) {
        if (!session->keep_client) {
                session_linger(session);
                return;
        }

        forget_request(session);
        session->progress = (struct http1_progress){ 0 };
        session->partial = false;
        session->blank_line = false;
        http_session_enter(session, HTTP_HEAD);
        http_session_limit(session, http_settings(session)->idle_ns);
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
        int r = http_flow_flush(&session->down, http_pool(session), session->client.stream);
        if (r == -EAGAIN)
                return false;

        if (r < 0)
                http_session_end(session, true);
        else
                http_session_next(session);

        return session->state != HTTP_GONE;
}

/* CONNECT was let through: the client is told, then it and the upstream belong to a tunnel. */
static void begin_tunnel(struct http_session *s) {
        static const struct str established = STR("HTTP/1.1 200 Connection established\r\n\r\n");
        struct stream *client = s->client.stream;
        ssize_t put = stream_write(client, established);
        int r = put == (ssize_t)established.n ? 0 : -EPIPE; /* a socket that cannot take 39 bytes is not read from */
        if (r == 0 && s->in)
                r = stream_unread(client, str_n(s->in->bytes + s->in->at, s->in->n));

        if (r < 0) {
                stream_close(take_ptr(&s->call.upstream));
                http_session_end(s, true);
                return;
        }

        timer_stop(&s->limit);
        s->client.via = VIA_CONNECT;
        if (s->call.intercept)
                intercept_start(&s->client, &s->call, NULL);
        else
                tunnel_start(&s->client, &s->call);

        /* What is left of the session holds neither stream nor place. */
        s->client.stream = NULL;
        link_remove(&s->of_worker);
        http_session_enter(s, HTTP_GONE);
        task_cancel(&s->later);
        forget_request(s);

        if (s->in)
                pool_chunk_put(http_pool(s), take_ptr(&s->in));

        loop_defer(s->client.worker->loop, &s->destroy);
}

/* Also where the connection leads to, since TLS with the origin has taken its time. */
static struct verdict judge_secured(struct http_session *session) {
        struct gate_call *call = &session->call;
        struct verdict verdict = gate_judge(session->client.worker, &call->target, true);
        if (verdict_is_agreed(&verdict, call->asked)) {
                verdict.decision = DECISION_ALLOW;
                verdict.rule = call->verdict.rule;
        }

        if (verdict.decision != DECISION_ALLOW || call->chained ||
            call->addr.family == ADDR_NONE) /* behind a proxy, as well */
                return verdict;

        struct verdict a = verdict_address(worker_snapshot(session->client.worker), &call->target.host, &call->addr,
                                           call->target.port);
        return a.decision == DECISION_ALLOW ? verdict : a;
}

/* The policy may have changed while the gate was asked, or the origin. */
static void judge_again(struct http_session *session) {
        struct gate_call *c = &session->call;
        if (session->connect || c->verdict.decision != DECISION_ALLOW)
                return;

        if (session->secure) {
                c->generation = session->client.worker->policy->generation;
                c->verdict = judge_secured(session);
        }

        c->verdict = http_request_verdict(session, c->verdict);
        if (c->verdict.decision != DECISION_ALLOW)
                stream_close(take_ptr(&c->upstream));
}

void http_session_opened(struct http_session *session) {
        struct gate_call *c = &session->call;

        http_session_enter(session, HTTP_HEAD); /* nothing is under way that would have to be cancelled */
        judge_again(session);

        if (session->connect && gate_asks_apart(c->question) && c->verdict.decision == DECISION_ALLOW) {
                http_refuse_as(session, 200, "text/plain", STR("a person agreed\n"));
        } else if (!gate_is_through(c)) {
                http_refuse(session);
        } else if (session->connect) {
                begin_tunnel(session);
                return;
        } else {
                session->upstream = take_ptr(&c->upstream);
                if (c->chained)
                        c->addr.family = ADDR_NONE; /* the proxy's own address is not the target's */
                http_exchange_begin(session);
        }

        http_session_run(session);
}

static void on_opened(struct gate_call *c) {
        struct http_session *session = link_owner(c, struct http_session, call);
        if (session->secure && c->upstream)
                http_secure_open(session);
        else
                http_session_opened(session);
}

void http_session_open(struct http_session *session) {
        session->call.worker = session->client.worker;
        session->call.request_visible = !session->connect;
        session->call.done = on_opened;
        http_session_enter(session, HTTP_OPENING);
        timer_stop(&session->limit); /* the gate has limits of its own */
        gate_open(&session->call);
}

int http_session_keep(struct http_session *s, struct str bytes, size_t used) {
        size_t left = bytes.n - used;

        if (s->in) {
                s->in->at += used;
                s->in->n = left;
                if (left == 0)
                        pool_chunk_put(http_pool(s), take_ptr(&s->in));

                return 0;
        }

        if (left == 0)
                return 0;

        s->in = pool_chunk_get(http_pool(s));
        if (!s->in)
                return -ENOMEM;

        s->in->at = 0;
        s->in->n = left;
        memcpy(s->in->bytes, bytes.p + used, left);

        return 0;
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
                http_request_begin(session, &(struct http1_request){ .head.close = true });
                session->request.done = false;
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
        if (session->examine && session->examine->holding)
                return http_examine_is_held(session) && stream_peer_left(session->client.stream);
        if (gate_is_held(&session->call))
                return stream_peer_left(session->client.stream);
        if (!session->connect || !session->client.stream->closed || session->in)
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
                return http_exchange_step(session);
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

void http_session_run(struct http_session *session) {
        for (unsigned i = 0; i < STEPS_PER_TURN; i++)
                if (!http_session_step(session))
                        return;
        if (session->state != HTTP_GONE)
                loop_soon(session->client.worker->loop, &session->later); /* the others' turn */
}

static void on_later(struct task *t) {
        http_session_run(link_owner(t, struct http_session, later));
}

static void on_client(struct stream *stream, void *owner) {
        (void)stream;
        http_session_run(owner);
}

static void on_limit(struct timer *t) {
        struct http_session *session = link_owner(t, struct http_session, limit);
        if (session->state == HTTP_HEAD && session->partial) {
                http_request_begin(session, &(struct http1_request){ .head.close = true });
                session->request.done = false;
                http_refuse_bytes(session, 408, REASON_TIMEOUT, "The request's header did not arrive in time");
        } else if (session->state == HTTP_EXCHANGE) {
                http_exchange_timeout(session);
        } else {
                http_session_end(session, false);
                return;
        }

        http_session_run(session);
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

        link_init(&session->judged.link);
        task_init(&session->later, on_later);
        task_init(&session->destroy, http_session_destroy);
        timer_init(&session->limit, client->worker->loop, on_limit);

        return session;
}

static int start(const struct client *client, struct http_session *session) {
        if (!session)
                return client_has_no_room(client);

        stream_set_owner(session->client.stream, on_client, session);
        link_append(&client->worker->http_sessions, &session->of_worker);
        upstream_pool_waits(client->worker->upstreams, true);
        http_session_limit(session, http_settings(session)->header_ns);
        http_session_run(session);

        return 0;
}

int http_session_start(const struct client *client) {
        return start(client, session_make(client, NULL, NULL));
}

int http_session_start_bound(const struct client *client, const struct authority *target,
                             const struct synthetic_hold *hold) {
        return start(client, session_make(client, target, hold));
}

int http_session_start_inside(const struct client *client, const struct http_inside *inside) {
        struct http_secure *secure = calloc(1, sizeof *secure);
        struct http_session *session = secure ? session_make(client, inside->target, &inside->hold) : NULL;
        if (!session) {
                free(secure);
                stream_close(inside->upstream);
                return start(client, NULL);
        }

        secure->session = session;
        secure->ready = inside->upstream;
        secure->addr = inside->addr;
        secure->spoilt = inside->spoilt;
        secure->why = inside->why;
        session->secure = secure;
        session->call.approved = inside->approved;

        return start(client, session);
}

int http_session_become_api(struct http_session *session) {
        struct http_secure *secure = calloc(1, sizeof *secure);

        if (!secure)
                return -ENOMEM;

        secure->session = session;
        secure->used = true; /* nothing is connected to before a request comes */
        session->secure = secure;
        session->api = true;
        session->client.via = VIA_API;

        return 0;
}

int http_session_start_api(const struct client *client) {
        struct http_session *session = session_make(client, NULL, NULL);

        if (session && http_session_become_api(session) < 0) {
                free(session);
                session = NULL;
        }
        return start(client, session);
}

void http_sessions_end(struct worker *worker) {
        while (!link_is_empty(&worker->http_sessions))
                http_session_end(link_owner(worker->http_sessions.next, struct http_session, of_worker), false);
}
