/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 inside TLS that was opened: one connection of a client, one of the origin, streams joined one to one.
 *
 *     client  <-- TLS -->  nghttp2 (server)  struct h2_stream  nghttp2 (client)  <-- TLS -->  origin
 *
 *     h2_callbacks.c   what nghttp2 tells         h2_request.c   heads: judged, sent on, refused
 *     h2_stream.c      one request, its response  h2_flow.c      bodies, windows
 *
 * Trust: neither end. Framing, header compression and the form of messages are nghttp2's; what they mean is judged
 * here, stream by stream, by the policy of that moment. Settings, pings, windows and priorities are each connection's
 * own and do not pass. The origin may not push. A connection of the origin's is used by this client only.
 *
 * Memory: queues of bodies are bounded by each stream's window and by H2_BUDGET in all, heads by the header limit,
 * streams by H2_STREAMS_MAX (twice that with those that the client gave up), frames that wait by H2_OUTBOUND_MAX. A
 * connection at rest holds nghttp2's tables and no buffer of ours.
 *
 * Time: a header block must be whole within the header limit, a connection without streams rests for the idle limit,
 * one with streams for the limit of tunnels. Pings do not count. A stream that stands still for the limit of tunnels
 * fails by itself while others go on, one whose body must be signed first for the idle limit.
 *
 * Connections to origins are not shared. Each client has its own, so that one client's stream limits, windows, resets
 * and errors are never another's, and what a connection may carry (which was judged for its client, by address) is
 * never in question. A handshake more is what that costs, and sessions are resumed.
 */
#include "gateway/h2/h2_swap.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"

#include <errno.h>
#include <stdlib.h>

enum { STEPS_PER_TURN = 32, FRAME_MAX = 16384 + 1024 };
#define LAST_WORDS_NS (2 * NS_PER_SECOND)

/* the end */

static void destroy(struct task *t) {
        free(link_owner(t, struct h2_session, destroy));
}

static void put_out(struct h2_side *side) {
        struct pool_chunk *out = take_ptr(&side->out);
        if (out && side->session->secrets && side->index == H2_ORIGIN)
                secret_wipe(out->bytes, sizeof out->bytes);
        if (out)
                pool_chunk_put(&side->session->client.worker->pool, out);
}

static void close_side(struct h2_side *side, bool abort) {
        struct stream *stream = take_ptr(&side->stream);
        put_out(side);
        if (abort)
                stream_abort(stream);
        else
                stream_close(stream);
}

/* A connection that carried no request is on record all the same: its origin was reached. */
static void record_unused(struct h2_session *s) {
        struct worker *w = s->client.worker;
        report_event(&w->report, &(struct event){ .kind = EVENT_TUNNEL_CLOSE,
                                                  .via = s->client.via,
                                                  .scheme = SCHEME_HTTPS,
                                                  .connection = s->client.number,
                                                  .duration_us = (loop_now(w->loop) - s->client.since) / 1000,
                                                  .rule = RULE_NONE,
                                                  .generation = w->policy->generation,
                                                  .reason = s->spoilt ? s->spoilt : REASON_ALLOWED,
                                                  .port = s->target.port,
                                                  .allowed = s->spoilt == REASON_NONE,
                                                  .addr = s->addr,
                                                  .domain = host_str(&s->target.host) });
}

void h2_session_end(struct h2_session *s, bool abort) {
        if (s->gone)
                return;
        struct worker *w = s->client.worker;
        s->gone = true;
        log_debug("h2 %llu: ends with %zu streams", (unsigned long long)s->client.number, s->n_streams);
        timer_stop(&s->limit);
        timer_stop(&s->patrol);
        task_cancel(&s->later);
        judged_remove(&s->judged);
        for (unsigned i = 0; i < H2_SIDES; i++)
                close_side(&s->side[i], abort || i == H2_ORIGIN);
        s->client.stream = NULL;
        for (unsigned i = 0; i < H2_SIDES; i++)
                nghttp2_session_del(take_ptr(&s->side[i].ng));
        while (!link_is_empty(&s->streams))
                h2_stream_end(link_owner(s->streams.next, struct h2_stream, link));
        for (unsigned i = 0; i < H2_SIDES; i++)
                h2_fields_free(take_ptr(&s->side[i].fields));
        if (!s->used)
                record_unused(s);
        if (w->gateway->synthetic)
                synthetic_release(w->gateway->synthetic, &s->hold, loop_now(w->loop));
        client_done(&s->client);
        loop_defer(w->loop, &s->destroy);
}

void h2_session_drain(struct h2_session *s, uint32_t code) {
        nghttp2_session *client = s->side[H2_CLIENT].ng;
        if (s->draining)
                return;
        s->draining = true;
        nghttp2_submit_goaway(client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(client), code, NULL,
                              0);
}

/* Every request that the origin has not answered is failed; the client hears of all of them, then of the end. */
static void fail_all(struct h2_session *s, enum reason reason, int error) {
        h2_session_drain(s, NGHTTP2_NO_ERROR);
        for (struct link *l = s->streams.next, *next; l != &s->streams; l = next) {
                struct h2_stream *t = link_owner(l, struct h2_stream, link);
                next = l->next;
                if (t->state == H2_PASSING && (t->origin_id || !t->down.ended)) {
                        t->origin_id = 0;
                        if (t->down.ended)
                                h2_stream_settle(t);
                        else
                                h2_stream_fail(t, reason, error);
                }
        }
}

static void lose_origin(struct h2_session *s, int error) {
        close_side(&s->side[H2_ORIGIN], true);
        fail_all(s, REASON_UPSTREAM, error ? error : -ECONNRESET);
}

static void on_limit(struct timer *t) {
        struct h2_session *s = link_owner(t, struct h2_session, limit);
        if (s->in_head || s->n_streams == 0 || s->closing) {
                for (struct link *l = s->streams.next; l != &s->streams; l = l->next) {
                        struct h2_stream *stream = link_owner(l, struct h2_stream, link);
                        if (stream->state == H2_HEAD)
                                stream->verdict.reason = REASON_TIMEOUT;
                }
                nghttp2_session_terminate_session(s->side[H2_CLIENT].ng, NGHTTP2_NO_ERROR);
                h2_session_run(s);
                h2_session_end(s, false); /* harmless when it has ended */
                return;
        }
        s->closing = true;
        fail_all(s, REASON_TIMEOUT, -ETIMEDOUT);
        close_side(&s->side[H2_ORIGIN], true);
        timer_start(&s->limit, LAST_WORDS_NS);
        h2_session_run(s);
}

enum { PATROLS = 4 }; /* in the time that a stream may stand still */

static uint64_t patience_with(const struct h2_stream *t) {
        const struct gateway_limits *limits = h2_settings(t->session);
        return t->state == H2_KEEPING || t->state == H2_EXAMINING ? limits->idle_ns : limits->tunnel_idle_ns;
}

/* Runs while there are streams. One that nobody moves must not live as long as its busy neighbours. */
static void on_patrol(struct timer *timer) {
        struct h2_session *s = link_owner(timer, struct h2_session, patrol);
        uint64_t now = loop_now(s->client.worker->loop);
        for (struct link *l = s->streams.next, *next; l != &s->streams; l = next) {
                struct h2_stream *t = link_owner(l, struct h2_stream, link);
                uint64_t most = patience_with(t);
                next = l->next;
                if (most > 0 && now - t->moved > most && t->client_id && t->state != H2_HEAD)
                        h2_stream_expire(t);
        }
        h2_session_patrol(s);
        h2_session_run(s);
}

void h2_session_patrol(struct h2_session *s) {
        const struct gateway_limits *limits = h2_settings(s);
        uint64_t most = limits->tunnel_idle_ns;
        if (limits->idle_ns > 0 && (most == 0 || limits->idle_ns < most))
                most = limits->idle_ns;
        if (most > 0 && s->n_streams > 0 && !timer_is_running(&s->patrol))
                timer_start(&s->patrol, most / PATROLS + 1);
}

bool h2_allow(struct h2_session *s, struct h2_allowance *a, uint64_t burst, uint64_t per_second) {
        uint64_t now = loop_now(s->client.worker->loop), price = NS_PER_SECOND / per_second;
        a->paid_until = (a->paid_until > now ? a->paid_until : now) + price;
        return a->paid_until - now <= burst * price;
}

/* bytes */

/* 0, -EAGAIN when the peer does not take more now, or its error. */
static int flush(struct h2_side *side) {
        struct pool_chunk *out = side->out;
        while (out && out->n > 0) {
                ssize_t put = stream_write(side->stream, str_n(out->bytes + out->at, out->n));
                if (put < 0)
                        return (int)put;
                out->at += (size_t)put;
                out->n -= (size_t)put;
        }
        if (out)
                out->at = 0;
        return 0;
}

/* As many frames as there is room for. */
static int fill(struct h2_side *side) {
        struct pool *pool = &side->session->client.worker->pool;
        if (!nghttp2_session_want_write(side->ng))
                return 0;
        if (!side->out && !(side->out = pool_chunk_get(pool)))
                return -ENOMEM;
        struct pool_chunk *out = side->out;
        out->at = out->n = 0;
        while (sizeof out->bytes - out->n >= FRAME_MAX) {
                const uint8_t *p;
                size_t before = out->n;
                ssize_t n = nghttp2_session_mem_send(side->ng, &p);
                if (n < 0 || n > FRAME_MAX)
                        return -EPROTO;
                if (n > 0)
                        memcpy(out->bytes + out->n, p, (size_t)n);
                out->n += (size_t)n;
                if (out->n == before)
                        break;
        }
        return 0;
}

/* True when something was written. */
static bool write_side(struct h2_side *side, int *ret_error) {
        bool moved = false;
        *ret_error = 0;
        while (side->stream) {
                int r = flush(side);
                if (r == 0)
                        r = fill(side);
                if (r == 0 && side->out && side->out->n > 0) {
                        moved = true;
                        continue;
                }
                if (side->out && side->out->n == 0)
                        put_out(side);
                if (r < 0 && r != -EAGAIN)
                        *ret_error = r;
                return moved;
        }
        return false;
}

static bool read_side(struct h2_side *side, int *ret_error) {
        char *bytes = side->session->client.worker->pool.scratch;
        *ret_error = 0;
        if (!side->stream || nghttp2_session_get_outbound_queue_size(side->ng) > H2_OUTBOUND_MAX)
                return false;
        ssize_t got = stream_read(side->stream, bytes, POOL_CHUNK_BYTES);
        if (got == -EAGAIN)
                return false;
        if (got <= 0) {
                *ret_error = got < 0 ? (int)got : -ECONNRESET;
                return false;
        }
        if (nghttp2_session_mem_recv(side->ng, (const uint8_t *)bytes, (size_t)got) != got)
                *ret_error = -EPROTO;
        return true;
}

static bool is_over(const struct h2_side *side) {
        return !nghttp2_session_want_read(side->ng) && !nghttp2_session_want_write(side->ng) && !side->out;
}

/* One step on each way. False when nothing moved or the session has ended. */
static bool step(struct h2_session *s) {
        struct h2_side *client = &s->side[H2_CLIENT], *origin = &s->side[H2_ORIGIN];
        int error, failed = 0;
        bool moved = read_side(client, &error);
        if (error < 0) {
                if (error == -EPROTO)
                        (void)write_side(client, &failed); /* what nghttp2 has to say about it */
                h2_session_end(s, true);
                return false;
        }
        moved |= read_side(origin, &error);
        moved |= write_side(origin, &failed);
        if (origin->stream && (error < 0 || failed < 0 || is_over(origin)))
                lose_origin(s, error < 0 ? error : failed);
        moved |= write_side(client, &error);
        if (error < 0 || is_over(client)) {
                h2_session_end(s, error < 0);
                return false;
        }
        return moved;
}

/* Streams that both sides are through with. */
static void sweep(struct h2_session *s) {
        for (struct link *l = s->streams.next, *next; l != &s->streams; l = next) {
                struct h2_stream *t = link_owner(l, struct h2_stream, link);
                next = l->next;
                if (!t->client_id && !t->origin_id)
                        h2_stream_end(t);
        }
}

static void watch_time(struct h2_session *s) {
        if (!s->progress || s->in_head || s->closing)
                return;
        s->progress = false;
        uint64_t ns = s->n_streams > 0 ? h2_settings(s)->tunnel_idle_ns : h2_settings(s)->idle_ns;
        if (ns > 0)
                timer_start(&s->limit, ns);
        else
                timer_stop(&s->limit);
}

void h2_session_run(struct h2_session *s) {
        bool more = true;
        if (s->gone || s->running)
                return;
        s->running = true;
        for (unsigned i = 0; more && i < STEPS_PER_TURN; i++) {
                more = step(s);
                if (!s->gone)
                        sweep(s);
        }
        s->running = false;
        if (s->gone)
                return;
        watch_time(s);
        if (more)
                loop_soon(s->client.worker->loop, &s->later); /* the others' turn */
}

static void on_later(struct task *t) {
        h2_session_run(link_owner(t, struct h2_session, later));
}

static void on_ready(struct stream *stream, void *owner) {
        (void)stream;
        h2_session_run(owner);
}

/* the beginning */

static void on_revoked(struct judged *j, struct verdict v) {
        struct h2_session *s = link_owner(j, struct h2_session, judged);
        for (struct link *l = s->streams.next; v.decision != DECISION_ALLOW && l != &s->streams; l = l->next) {
                struct h2_stream *t = link_owner(l, struct h2_stream, link);
                t->verdict = v;
                t->generation = s->client.worker->policy->generation;
                t->begun = false;
        }
        h2_session_end(s, true);
}

static void name_authority(struct h2_session *s) {
        authority_text(&s->target, s->authority);
        if (s->target.port == 443)
                s->authority[str_rfind(str_of(s->authority), ':')] = '\0';
}

static int prepare(struct h2_session *s, const struct client *client, const struct http_inside *inside) {
        size_t heads = client->worker->limits.header_bytes;
        if (heads == 0 || heads > POOL_CHUNK_BYTES)
                heads = POOL_CHUNK_BYTES;
        for (unsigned i = 0; i < H2_SIDES; i++) {
                struct h2_side *side = &s->side[i];
                side->session = s;
                side->index = (uint8_t)i;
                side->stream = i == H2_CLIENT ? client->stream : inside->upstream;
                side->fields = h2_fields_new(i == H2_CLIENT ? heads : POOL_CHUNK_BYTES);
                if (!side->fields || h2_side_open(side) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int h2_session_start(const struct client *client, const struct http_inside *inside) {
        struct worker *w = client->worker;
        struct h2_session *s = alloc_zeroed(sizeof *s);
        if (!s) {
                stream_close(inside->upstream);
                return client_has_no_room(client);
        }
        s->client = *client;
        s->target = *inside->target;
        s->hold = inside->hold;
        s->addr = inside->addr;
        s->approved = inside->approved;
        s->spoilt = inside->spoilt;
        s->why = inside->why;
        link_init(&s->streams);
        link_init(&s->judged.link);
        task_init(&s->later, on_later);
        task_init(&s->destroy, destroy);
        timer_init(&s->limit, w->loop, on_limit);
        timer_init(&s->patrol, w->loop, on_patrol);
        s->secrets = swap_is_wanted(w, &s->target);
        name_authority(s);
        bool full = false;
        s->host_bytes = quota_host(w->gateway->quota, &s->target.host, &full);
        if (full)
                s->spoilt = REASON_LIMIT;
        if (prepare(s, client, inside) < 0) {
                s->side[H2_CLIENT].stream = client->stream;
                s->side[H2_ORIGIN].stream = inside->upstream;
                s->side[H2_CLIENT].session = s->side[H2_ORIGIN].session = s;
                h2_session_end(s, true);
                return -ENOMEM;
        }
        s->judged =
            (struct judged){ .target = &s->target, .addr = s->addr, .asked = s->approved, .revoke = on_revoked };
        judged_add(w, &s->judged);
        for (unsigned i = 0; i < H2_SIDES; i++)
                if (s->side[i].stream)
                        stream_set_owner(s->side[i].stream, on_ready, s);
        timer_start(&s->limit, h2_settings(s)->header_ns);
        h2_session_run(s);
        return 0;
}
