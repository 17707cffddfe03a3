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
 * one with streams for the limit of tunnels. Pings do not count. A stream that stalls for the limit of tunnels
 * fails by itself while others go on, one whose body must be signed, judged or thrown away first for the idle limit.
 *
 * Connections to origins are not shared. Each client has its own, so that one client's stream limits, windows, resets
 * and errors are never another's, and what a connection may carry (which was judged for its client, by address) is
 * never in question. A handshake more is what that costs, and sessions are resumed.
 */
#include "gateway/h2/h2_swap.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secrets/secret.h"

#include <errno.h>
#include <stdlib.h>

enum { STEPS_PER_TURN = 32, FRAME_MAX = 16384 + 1024 };
#define LAST_WORDS_NS (2 * NS_PER_SECOND)

/* the end */

static void session_destroy(struct task *task) {
        free(link_owner(task, struct h2_session, destroy));
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
static void record_unused(struct h2_session *session) {
        struct worker *worker = session->client.worker;

        report_event(&worker->report,
                     &(struct event){ .kind = EVENT_TUNNEL_CLOSE,
                                      .via = session->client.via,
                                      .scheme = SCHEME_HTTPS,
                                      .connection = session->client.number,
                                      .duration_us = (loop_now(worker->loop) - session->client.since) / 1000,
                                      .rule = RULE_NONE,
                                      .generation = worker->policy->generation,
                                      .reason = session->spoilt ? session->spoilt : REASON_ALLOWED,
                                      .port = session->target.port,
                                      .allowed = session->spoilt == REASON_NONE,
                                      .addr = session->addr,
                                      .domain = host_str(&session->target.host) });
}

void h2_session_end(struct h2_session *session, bool abort) {
        if (session->gone)
                return;

        struct worker *worker = session->client.worker;
        session->gone = true;
        log_debug("h2 %llu: ends with %zu streams", (unsigned long long)session->client.number, session->n_streams);
        timer_stop(&session->limit);
        timer_stop(&session->patrol);
        task_cancel(&session->later);
        judged_remove(&session->judged);

        for (unsigned i = 0; i < H2_SIDES; i++)
                close_side(&session->side[i], abort || i == H2_ORIGIN);

        session->client.stream = NULL;
        for (unsigned i = 0; i < H2_SIDES; i++)
                nghttp2_session_del(take_ptr(&session->side[i].ng));

        while (!link_is_empty(&session->streams))
                h2_stream_end(link_owner(session->streams.next, struct h2_stream, link));

        for (unsigned i = 0; i < H2_SIDES; i++)
                h2_fields_free(take_ptr(&session->side[i].fields));

        if (!session->used)
                record_unused(session);
        if (worker->gateway->synthetic)
                synthetic_release(worker->gateway->synthetic, &session->hold, loop_now(worker->loop));

        client_done(&session->client);
        loop_defer(worker->loop, &session->destroy);
}

void h2_session_drain(struct h2_session *session, uint32_t code) {
        nghttp2_session *client = session->side[H2_CLIENT].ng;
        if (session->draining)
                return;
        session->draining = true;
        nghttp2_submit_goaway(client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(client), code, NULL,
                              0);
}

/* Every request that the origin has not answered is failed; the client hears of all of them, then of the end. */
static void fail_all(struct h2_session *session, enum reason reason, int error) {
        h2_session_drain(session, NGHTTP2_NO_ERROR);

        for (struct link *l = session->streams.next, *next; l != &session->streams; l = next) {
                struct h2_stream *stream = link_owner(l, struct h2_stream, link);

                next = l->next;

                if (stream->state == H2_PASSING && (stream->origin_id || !stream->down.ended)) {
                        stream->origin_id = 0;
                        if (stream->down.ended)
                                h2_stream_settle(stream);
                        else
                                h2_stream_fail(stream, reason, error);
                }
        }
}

static void lose_origin(struct h2_session *session, int error) {
        close_side(&session->side[H2_ORIGIN], true);
        fail_all(session, REASON_UPSTREAM, error ? error : -ECONNRESET);
}

static void on_limit(struct timer *timer) {
        struct h2_session *session = link_owner(timer, struct h2_session, limit);
        if (session->in_head || session->n_streams == 0 || session->closing) {
                for (struct link *l = session->streams.next; l != &session->streams; l = l->next) {
                        struct h2_stream *stream = link_owner(l, struct h2_stream, link);
                        if (stream->state == H2_HEAD)
                                stream->verdict.reason = REASON_TIMEOUT;
                }

                nghttp2_session_terminate_session(session->side[H2_CLIENT].ng, NGHTTP2_NO_ERROR);
                h2_session_run(session);
                h2_session_end(session, false); /* harmless when it has ended */
                return;
        }

        session->closing = true;
        fail_all(session, REASON_TIMEOUT, -ETIMEDOUT);
        close_side(&session->side[H2_ORIGIN], true);
        timer_start(&session->limit, LAST_WORDS_NS);
        h2_session_run(session);
}

enum { PATROLS = 4 }; /* in the time that a stream may stall */

static uint64_t patience_with(const struct h2_stream *stream) {
        const struct gateway_limits *limits = h2_settings(stream->session);

        switch (stream->state) {
        case H2_EXAMINING:
        case H2_DRAINING:
        case H2_KEEPING:
                return limits->idle_ns;
        default:
                return limits->tunnel_idle_ns;
        }
}

/* Runs while there are streams. One that nobody moves must not live as long as its busy neighbours. */
static void on_patrol(struct timer *timer) {
        struct h2_session *session = link_owner(timer, struct h2_session, patrol);
        uint64_t now = loop_now(session->client.worker->loop);

        for (struct link *l = session->streams.next, *next; l != &session->streams; l = next) {
                struct h2_stream *stream = link_owner(l, struct h2_stream, link);
                uint64_t most = patience_with(stream);

                next = l->next;
                if (most > 0 && now - stream->moved > most && stream->client_id && stream->state != H2_HEAD)
                        h2_stream_expire(stream);
        }

        h2_session_patrol(session);
        h2_session_run(session);
}

void h2_session_patrol(struct h2_session *session) {
        const struct gateway_limits *limits = h2_settings(session);
        uint64_t most = limits->tunnel_idle_ns;
        if (limits->idle_ns > 0 && (most == 0 || limits->idle_ns < most))
                most = limits->idle_ns;
        if (most > 0 && session->n_streams > 0 && !timer_is_running(&session->patrol))
                timer_start(&session->patrol, most / PATROLS + 1);
}

bool h2_allow(struct h2_session *session, struct h2_allowance *allowance, uint64_t burst, uint64_t per_second) {
        uint64_t now = loop_now(session->client.worker->loop), price = NS_PER_SECOND / per_second;
        allowance->paid_until = max_of(allowance->paid_until, now) + price;
        return allowance->paid_until - now <= burst * price;
}

/* bytes */

/* 0, -EAGAIN when the peer does not take more now, or its error. */
static int session_flush(struct h2_side *side) {
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
static int session_fill(struct h2_side *side) {
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
                int r = session_flush(side);
                if (r == 0)
                        r = session_fill(side);

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
static bool session_step(struct h2_session *session) {
        struct h2_side *client = &session->side[H2_CLIENT], *origin = &session->side[H2_ORIGIN];
        int error, failed = 0;
        bool moved = read_side(client, &error);

        if (error < 0) {
                if (error == -EPROTO)
                        (void)write_side(client, &failed); /* what nghttp2 has to say about it */
                h2_session_end(session, true);
                return false;
        }

        moved |= read_side(origin, &error);
        moved |= write_side(origin, &failed);
        if (origin->stream && (error < 0 || failed < 0 || is_over(origin)))
                lose_origin(session, error < 0 ? error : failed);

        moved |= write_side(client, &error);

        if (error < 0 || is_over(client)) {
                h2_session_end(session, error < 0);
                return false;
        }

        return moved;
}

/* Streams that both sides are through with. */
static void session_sweep(struct h2_session *session) {
        for (struct link *l = session->streams.next, *next; l != &session->streams; l = next) {
                struct h2_stream *stream = link_owner(l, struct h2_stream, link);
                next = l->next;
                if (!stream->client_id && !stream->origin_id)
                        h2_stream_end(stream);
        }
}

static void watch_time(struct h2_session *session) {
        if (!session->progress || session->in_head || session->closing)
                return;

        session->progress = false;
        uint64_t ns = session->n_streams > 0 ? h2_settings(session)->tunnel_idle_ns : h2_settings(session)->idle_ns;
        if (ns > 0)
                timer_start(&session->limit, ns);
        else
                timer_stop(&session->limit);
}

void h2_session_run(struct h2_session *session) {
        bool more = true;

        if (session->gone || session->running)
                return;

        session->running = true;

        for (unsigned i = 0; more && i < STEPS_PER_TURN; i++) {
                more = session_step(session);
                if (!session->gone)
                        session_sweep(session);
        }

        session->running = false;
        if (session->gone)
                return;

        watch_time(session);
        if (more)
                loop_soon(session->client.worker->loop, &session->later); /* the others' turn */
}

static void on_later(struct task *task) {
        h2_session_run(link_owner(task, struct h2_session, later));
}

static void on_ready(struct stream *stream, void *owner) {
        (void)stream;
        h2_session_run(owner);
}

/* the beginning */

static void on_revoked(struct judged *j, struct verdict verdict) {
        struct h2_session *session = link_owner(j, struct h2_session, judged);
        for (struct link *l = session->streams.next; verdict.decision != DECISION_ALLOW && l != &session->streams;
             l = l->next) {
                struct h2_stream *stream = link_owner(l, struct h2_stream, link);

                stream->verdict = verdict;
                stream->generation = session->client.worker->policy->generation;
                stream->begun = false;
        }

        h2_session_end(session, true);
}

static void name_authority(struct h2_session *session) {
        authority_text(&session->target, session->authority);
        if (session->target.port == 443)
                session->authority[str_rfind(str_of(session->authority), ':')] = '\0';
}

static int session_prepare(struct h2_session *session, const struct client *client, const struct http_inside *inside) {
        size_t heads = client->worker->limits.header_bytes;
        if (heads == 0 || heads > POOL_CHUNK_BYTES)
                heads = POOL_CHUNK_BYTES;

        for (unsigned i = 0; i < H2_SIDES; i++) {
                struct h2_side *side = &session->side[i];

                side->session = session;
                side->index = (uint8_t)i;
                side->stream = i == H2_CLIENT ? client->stream : inside->upstream;
                side->fields = h2_fields_new(i == H2_CLIENT ? heads : POOL_CHUNK_BYTES);
                if (!side->fields || h2_side_open(side) < 0)
                        return -ENOMEM;
        }

        return 0;
}

int h2_session_start(const struct client *client, const struct http_inside *inside) {
        struct worker *worker = client->worker;
        struct h2_session *session = alloc_zeroed(sizeof *session);
        if (!session) {
                stream_close(inside->upstream);
                return client_has_no_room(client);
        }

        session->client = *client;
        session->target = *inside->target;
        session->hold = inside->hold;
        session->addr = inside->addr;
        session->approved = inside->approved;
        session->spoilt = inside->spoilt;
        session->why = inside->why;
        link_init(&session->streams);
        link_init(&session->judged.link);
        task_init(&session->later, on_later);
        task_init(&session->destroy, session_destroy);
        timer_init(&session->limit, worker->loop, on_limit);
        timer_init(&session->patrol, worker->loop, on_patrol);
        session->secrets = swap_is_wanted(worker, &session->target);
        name_authority(session);

        bool full = false;
        session->host_bytes = quota_host(worker->gateway->quota, &session->target.host, &full);
        if (full)
                session->spoilt = REASON_LIMIT;

        if (session_prepare(session, client, inside) < 0) {
                session->side[H2_CLIENT].stream = client->stream;
                session->side[H2_ORIGIN].stream = inside->upstream;
                session->side[H2_CLIENT].session = session->side[H2_ORIGIN].session = session;
                h2_session_end(session, true);

                return -ENOMEM;
        }

        session->judged = (struct judged){
                .target = &session->target, .addr = session->addr, .asked = session->approved, .revoke = on_revoked
        };
        judged_add(worker, &session->judged);

        for (unsigned i = 0; i < H2_SIDES; i++)
                if (session->side[i].stream)
                        stream_set_owner(session->side[i].stream, on_ready, session);

        timer_start(&session->limit, h2_settings(session)->header_ns);
        h2_session_run(session);

        return 0;
}
