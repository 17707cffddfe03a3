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

void http_session_limit(struct http_session *s, uint64_t ns) {
        if (ns > 0)
                timer_start(&s->limit, ns);
        else
                timer_stop(&s->limit);
}

static void destroy(struct task *t) {
        struct http_session *s = link_owner(t, struct http_session, destroy);
        free(s->switched);
        free(s->secure);
        free(s);
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
static void end_secure(struct http_session *s) {
        http_secure_done(s);
        if (s->secure->used)
                return;
        report_event(&s->client.worker->report,
                     &(struct event){ .kind = EVENT_TUNNEL_CLOSE,
                                      .via = s->client.via,
                                      .scheme = SCHEME_HTTPS,
                                      .connection = s->client.number,
                                      .duration_us = (loop_now(s->client.worker->loop) - s->client.since) / 1000,
                                      .rule = RULE_NONE,
                                      .generation = s->client.worker->policy->generation,
                                      .reason = s->secure->spoilt ? s->secure->spoilt : REASON_ALLOWED,
                                      .port = s->call.target.port,
                                      .allowed = s->secure->spoilt == REASON_NONE,
                                      .addr = s->secure->addr,
                                      .domain = host_str(&s->call.target.host) });
}

void http_session_end(struct http_session *s, bool abort) {
        if (s->state == HTTP_GONE)
                return;
        struct worker *w = s->client.worker;
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
        if (w->gateway->synthetic)
                synthetic_release(w->gateway->synthetic, &s->hold, loop_now(w->loop));
        if (abort)
                stream_abort(take_ptr(&s->client.stream));
        client_done(&s->client);
        loop_defer(w->loop, &s->destroy);
}

/* The head as the client meant it: without secrets. */
static struct str own_head(const struct http_session *s) {
        return buf_str(s->swap ? &s->swap->plain : &s->up.head);
}

/* Of the request that was written: "METHOD SP path ...". */
struct str http_session_method(const struct http_session *s) {
        return str_first(own_head(s), s->method_n);
}

struct str http_session_path(const struct http_session *s) {
        return str_first(str_skip(own_head(s), s->method_n + 1u), s->path_n);
}

struct str http_session_target(const struct http_session *s) {
        struct str rest = str_skip(own_head(s), s->method_n + 1u);
        ptrdiff_t end = str_find(rest, ' ');

        return end < 0 ? str_first(rest, s->path_n) : str_first(rest, (size_t)end);
}

void http_session_record(struct http_session *s, bool allowed) {
        struct worker *w = s->client.worker;
        struct event ev = {
                .kind = EVENT_REQUEST,
                .via = s->client.via,
                .scheme = s->secure ? SCHEME_HTTPS : SCHEME_HTTP,
                .connection = s->client.number,
                .bytes_in = s->bytes_in,
                .bytes_out = s->bytes_out,
                .duration_us = (clock_ns() - s->since) / 1000,
                .rule = s->call.verdict.rule,
                .generation = s->call.generation,
                .reason = s->call.verdict.reason,
                .port = s->call.target.port,
                .status = s->status,
                .allowed = allowed,
                .addr = s->call.addr,
                .domain = host_str(&s->call.target.host),
                .method = http_session_method(s),
                .path = str_first(http_session_path(s), EVENT_TEXT_MAX),
                .swapped = s->swap ? buf_str(&s->swap->names) : STR(""),
                .detail = str_of(s->call.why),
                .act = s->examine ? buf_str(&s->examine->examine->act) : STR(""),
        };
        report_event(&w->report, &ev);
}

static void linger(struct http_session *s) {
        forget_request(s);
        if (stream_finish(s->client.stream) < 0) {
                http_session_end(s, false);
                return;
        }
        s->lingered = 0;
        http_session_enter(s, HTTP_LINGER);
        http_session_limit(s, LINGER_NS);
}

void http_session_next(struct http_session *s) {
        if (!s->keep_client) {
                linger(s);
                return;
        }
        forget_request(s);
        s->progress = (struct http1_progress){ 0 };
        s->partial = false;
        s->blank_line = false;
        http_session_enter(s, HTTP_HEAD);
        http_session_limit(s, http_settings(s)->idle_ns);
}

/* Reads and throws away, so that the client gets our last bytes before the kernel would reset the connection. */
static bool linger_step(struct http_session *s) {
        ssize_t got = stream_read(s->client.stream, http_pool(s)->scratch, POOL_SCRATCH_BYTES);
        if (got == -EAGAIN)
                return false;
        s->lingered += got > 0 ? (uint64_t)got : 0;
        if (got > 0 && s->lingered < LINGER_BYTES)
                return true;
        http_session_end(s, false);
        return false;
}

static bool answer_step(struct http_session *s) {
        int r = http_flow_flush(&s->down, http_pool(s), s->client.stream);
        if (r == -EAGAIN)
                return false;
        if (r < 0)
                http_session_end(s, true);
        else
                http_session_next(s);
        return s->state != HTTP_GONE;
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
static struct verdict judge_secured(struct http_session *s) {
        struct gate_call *c = &s->call;
        struct verdict v = gate_judge(s->client.worker, &c->target, true);
        if (verdict_is_agreed(&v, c->asked)) {
                v.decision = DECISION_ALLOW;
                v.rule = c->verdict.rule;
        }
        if (v.decision != DECISION_ALLOW || c->chained || c->addr.family == ADDR_NONE) /* behind a proxy, as well */
                return v;
        struct verdict a =
            verdict_address(worker_snapshot(s->client.worker), &c->target.host, &c->addr, c->target.port);
        return a.decision == DECISION_ALLOW ? v : a;
}

/* The policy may have changed while the gate was asked, or the origin. */
static void judge_again(struct http_session *s) {
        struct gate_call *c = &s->call;
        if (s->connect || c->verdict.decision != DECISION_ALLOW)
                return;
        if (s->secure) {
                c->generation = s->client.worker->policy->generation;
                c->verdict = judge_secured(s);
        }
        c->verdict = http_request_verdict(s, c->verdict);
        if (c->verdict.decision != DECISION_ALLOW)
                stream_close(take_ptr(&c->upstream));
}

void http_session_opened(struct http_session *s) {
        struct gate_call *c = &s->call;
        http_session_enter(s, HTTP_HEAD); /* nothing is under way that would have to be cancelled */
        judge_again(s);
        if (s->connect && gate_asks_apart(c->question) && c->verdict.decision == DECISION_ALLOW) {
                http_refuse_as(s, 200, "text/plain", STR("a person agreed\n"));
        } else if (!gate_is_through(c)) {
                http_refuse(s);
        } else if (s->connect) {
                begin_tunnel(s);
                return;
        } else {
                s->upstream = take_ptr(&c->upstream);
                if (c->chained)
                        c->addr.family = ADDR_NONE; /* the proxy's own address is not the target's */
                http_exchange_begin(s);
        }
        http_session_run(s);
}

static void on_opened(struct gate_call *c) {
        struct http_session *s = link_owner(c, struct http_session, call);
        if (s->secure && c->upstream)
                http_secure_open(s);
        else
                http_session_opened(s);
}

void http_session_open(struct http_session *s) {
        s->call.worker = s->client.worker;
        s->call.request_visible = !s->connect;
        s->call.done = on_opened;
        http_session_enter(s, HTTP_OPENING);
        timer_stop(&s->limit); /* the gate has limits of its own */
        gate_open(&s->call);
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

static void take_head(struct http_session *s, struct str bytes) {
        static _Thread_local struct http1_request request; /* large, and needed only until this function returns */
        size_t max = http_settings(s)->header_bytes;
        if (!s->partial && !s->blank_line && str_starts(bytes, STR("\r\n"))) {
                s->blank_line = true; /* one, as old clients send it behind a body (RFC 9112, 2.2) */
                if (http_session_keep(s, bytes, 2) < 0)
                        http_session_end(s, true);
                return;
        }
        if (max == 0 || max > POOL_CHUNK_BYTES)
                max = POOL_CHUNK_BYTES;
        enum http1_result r = http1_request_parse(&s->progress, bytes, max, &request);
        if (r == HTTP1_MORE) {
                if (!s->partial)
                        http_session_limit(s, http_settings(s)->header_ns); /* once: dripping bytes buys no time */
                if (http_session_keep(s, bytes, 0) < 0)
                        http_session_end(s, true);
                s->partial = true;
                return;
        }
        if (r != HTTP1_OK) {
                http_request_begin(s, &(struct http1_request){ .head.close = true });
                s->request.done = false;
                bool large = r == HTTP1_TOO_LARGE || r == HTTP1_TOO_MANY;
                http_refuse_bytes(s, large ? 431 : 400, REASON_PROTOCOL, http1_result_text(r));
                return;
        }
        timer_stop(&s->limit);
        http_request_take(s, &request);
        if (s->state != HTTP_GONE && http_session_keep(s, bytes, request.head.bytes) < 0)
                http_session_end(s, true);
}

static bool head_step(struct http_session *s) {
        struct pool_chunk *in = s->in;
        if (in && !s->partial) {
                take_head(s, str_n(in->bytes + in->at, in->n));
                return s->state != HTTP_GONE;
        }
        char *to = http_pool(s)->scratch;
        size_t had = 0;
        if (in) {
                if (in->at > 0)
                        memmove(in->bytes, in->bytes + in->at, in->n);
                in->at = 0;
                had = in->n;
                to = in->bytes;
        }
        ssize_t got = stream_read(s->client.stream, to + had, POOL_CHUNK_BYTES - had);
        if (got == -EAGAIN)
                return false;
        if (got <= 0) {
                http_session_end(s, false);
                return false;
        }
        if (in)
                in->n += (size_t)got;
        take_head(s, str_n(to, had + (size_t)got));
        return s->state != HTTP_GONE;
}

/* Whether the client has left before its connection was there. While it is only dialled, one that sent all it has to
 * say ahead and then its end is still served. */
static bool client_gave_up(struct http_session *s) {
        if (s->examine && s->examine->holding)
                return http_examine_is_held(s) && stream_peer_left(s->client.stream);
        if (gate_is_held(&s->call))
                return stream_peer_left(s->client.stream);
        if (!s->connect || !s->client.stream->closed || s->in)
                return false;
        char *bytes = http_pool(s)->scratch;
        ssize_t got = stream_read(s->client.stream, bytes, POOL_CHUNK_BYTES);
        return got != -EAGAIN && (got <= 0 || http_session_keep(s, str_n(bytes, (size_t)got), 0) < 0);
}

/* Nobody is asked, nothing is dialled any more for a client that gave up; its attempt is on record. */
static bool opening_step(struct http_session *s) {
        if (client_gave_up(s)) {
                http_refusal_record(s);
                http_session_end(s, false);
        }
        return false;
}

static bool step(struct http_session *s) {
        switch ((enum http_state)s->state) {
        case HTTP_OPENING:
                return opening_step(s);
        case HTTP_HEAD:
                return head_step(s);
        case HTTP_KEEPING:
                return http_swap_keep_step(s);
        case HTTP_EXAMINING:
                return http_examine_step(s);
        case HTTP_DRAINING:
                return http_examine_drain_step(s);
        case HTTP_EXCHANGE:
                return http_exchange_step(s);
        case HTTP_ANSWER:
                return answer_step(s);
        case HTTP_SWITCH:
                return http_switch_step(s);
        case HTTP_LINGER:
                return linger_step(s);
        default:
                return false;
        }
}

void http_session_run(struct http_session *s) {
        for (unsigned i = 0; i < STEPS_PER_TURN; i++)
                if (!step(s))
                        return;
        if (s->state != HTTP_GONE)
                loop_soon(s->client.worker->loop, &s->later); /* the others' turn */
}

static void on_later(struct task *t) {
        http_session_run(link_owner(t, struct http_session, later));
}

static void on_client(struct stream *stream, void *owner) {
        (void)stream;
        http_session_run(owner);
}

static void on_limit(struct timer *t) {
        struct http_session *s = link_owner(t, struct http_session, limit);
        if (s->state == HTTP_HEAD && s->partial) {
                http_request_begin(s, &(struct http1_request){ .head.close = true });
                s->request.done = false;
                http_refuse_bytes(s, 408, REASON_TIMEOUT, "The request's header did not arrive in time");
        } else if (s->state == HTTP_EXCHANGE) {
                http_exchange_timeout(s);
        } else {
                http_session_end(s, false);
                return;
        }
        http_session_run(s);
}

static struct http_session *make(const struct client *client, const struct authority *bound,
                                 const struct synthetic_hold *hold) {
        struct http_session *s = alloc_zeroed(sizeof *s);
        if (!s)
                return NULL;
        s->client = *client;
        s->bound = bound != NULL;
        if (bound)
                s->call.target = *bound;
        if (hold)
                s->hold = *hold;
        link_init(&s->judged.link);
        task_init(&s->later, on_later);
        task_init(&s->destroy, destroy);
        timer_init(&s->limit, client->worker->loop, on_limit);
        return s;
}

static int start(const struct client *client, struct http_session *s) {
        if (!s)
                return client_has_no_room(client);
        stream_set_owner(s->client.stream, on_client, s);
        link_append(&client->worker->http_sessions, &s->of_worker);
        upstream_pool_waits(client->worker->upstreams, true);
        http_session_limit(s, http_settings(s)->header_ns);
        http_session_run(s);
        return 0;
}

int http_session_start(const struct client *client) {
        return start(client, make(client, NULL, NULL));
}

int http_session_start_bound(const struct client *client, const struct authority *target,
                             const struct synthetic_hold *hold) {
        return start(client, make(client, target, hold));
}

int http_session_start_inside(const struct client *client, const struct http_inside *inside) {
        struct http_secure *k = calloc(1, sizeof *k);
        struct http_session *s = k ? make(client, inside->target, &inside->hold) : NULL;
        if (!s) {
                free(k);
                stream_close(inside->upstream);
                return start(client, NULL);
        }
        k->session = s;
        k->ready = inside->upstream;
        k->addr = inside->addr;
        k->spoilt = inside->spoilt;
        k->why = inside->why;
        s->secure = k;
        s->call.approved = inside->approved;
        return start(client, s);
}

int http_session_become_api(struct http_session *s) {
        struct http_secure *k = calloc(1, sizeof *k);

        if (!k)
                return -ENOMEM;
        k->session = s;
        k->used = true; /* nothing is connected to before a request comes */
        s->secure = k;
        s->api = true;
        s->client.via = VIA_API;
        return 0;
}

int http_session_start_api(const struct client *client) {
        struct http_session *s = make(client, NULL, NULL);

        if (s && http_session_become_api(s) < 0) {
                free(s);
                s = NULL;
        }
        return start(client, s);
}

void http_sessions_end(struct worker *worker) {
        while (!link_is_empty(&worker->http_sessions))
                http_session_end(link_owner(worker->http_sessions.next, struct http_session, of_worker), false);
}
