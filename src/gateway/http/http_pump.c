/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on its way out and its response on its way back, both at once. Each direction reads only when the other
 * side has taken what was read before, so a slow reader slows the writer and nothing piles up here. A response is
 * checked as strictly as a request: what cannot be framed without doubt is answered with 502, or cut off when it had
 * begun.
 */
#include "gateway/http/http_internal.h"

#include "base/cleanup.h"
#include "gateway/http/http_examine.h"
#include "gateway/http/http_swap.h"
#include "gateway/load/quota.h"
#include "gateway/refusal.h"
#include "net/splice.h"

#include <errno.h>
#include <stdlib.h>

enum { INTERIM_MAX = 32 }; /* 1xx responses before the final one */

/* What the record says about an answer whose beginning the client has. An end without close_notify is no end: somebody
 * on the way may have cut the answer, and its client must not take it for whole. */
static const char *cut_text(const struct http_session *session, enum reason reason) {
        if (reason == REASON_TIMEOUT)
                return "The answer was cut off: nothing more of it came in time.";
        if (session->secure && session->exchange.response.kind == BODY_UNTIL_CLOSE)
                return "The answer was cut off: it has no length, and the origin closed without TLS close_notify, "
                       "which would "
                       "have said that it is whole.";
        return "The answer was cut off: the origin broke off in the middle of it.";
}

/* The exchange failed on the origin's side: told to the client if it was told nothing yet, else its connection is cut.
 */
static void fail_upstream(struct http_session *session, enum reason reason, int error) {
        refusal_decide(&session->call.verdict, reason);
        session->call.error = error;
        stream_abort(take_ptr(&session->exchange.upstream));

        /* what was written for the client is still here */
        bool nothing_left =
            !session->exchange.down.begun && session->exchange.down.head_at == 0 && !session->exchange.down.rest;
        if (session->exchange.head_sent && !nothing_left) {
                session->call.why = cut_text(session, reason);
                http_exchange_record(session, true);
                http_session_end(session, true);
                return;
        }

        session->exchange.down.held = false;
        if (session->exchange.swap)
                http_swap_done_down(session); /* what it holds does not follow our answer */

        http_refuse(session);
}

/* The client went away in the middle of the exchange, or a limit is passed. */
void http_pump_fail_client(struct http_session *session, enum reason reason) {
        session->call.verdict.reason = (uint8_t)reason;
        stream_abort(take_ptr(&session->exchange.upstream));
        http_exchange_record(session, true);
        http_session_end(session, true);
}

/* A pooled connection that the origin closed just as it was used: the request was not answered, so it is sent once more
 * on a new connection, if sending twice cannot do harm. */
static bool try_again(struct http_session *session) {
        if (!session->exchange.reused || session->exchange.answered || !session->exchange.repeatable)
                return false;

        stream_close(take_ptr(&session->exchange.upstream));
        judged_remove(&session->exchange.judged);
        session->exchange.reused = false;
        session->exchange.up_broken = false;
        session->exchange.up.head_at = 0;
        http_session_open(session);

        return true;
}

void http_pump_timeout(struct http_session *session) {
        if (!session->exchange.request.done && !session->exchange.head_sent) {
                stream_abort(take_ptr(&session->exchange.upstream));
                http_refuse_bytes(session, 408, REASON_TIMEOUT, "The request's body did not arrive in time");
                return;
        }
        fail_upstream(session, REASON_TIMEOUT, -ETIMEDOUT);
}

/* False when a limit on what may be sent out is passed. */
static bool count_out(struct http_session *session, size_t n) {
        const struct gateway_limits *limits = http_settings(session);
        session->exchange.bytes_out += n;
        if (limits->bytes_out == 0 && limits->bytes_out_per_host == 0)
                return true;
        return quota_sent(session->client.worker->gateway->quota, session->exchange.host_bytes, n);
}

/* Whether the next bytes of a body go through a pipe: it is large, and only their number matters. */
static bool is_spliced(const struct http_body *body, uint64_t moved, const struct stream *from,
                       const struct stream *to) {
        return moved >= SPLICE_AFTER && http_body_opaque(body) > 0 && splice_is_possible(from, to);
}

static int check_trailers(struct http_session *session) {
        if (http_swap_trailers_pass(session))
                return 0;

        http_refuse_rest(session, REASON_CREDENTIAL, INJECT_IN_TRAILERS);
        return -ECANCELED;
}

static int push_up(struct http_session *session, struct str span) {
        int r = check_trailers(session);
        if (r < 0)
                return r;

        if (!http_body_fits(session)) {
                http_refuse_large(session);
                return -ECANCELED;
        }

        if (!count_out(session, span.n)) {
                http_pump_fail_client(session, REASON_LIMIT);
                return -ECANCELED;
        }

        if (session->exchange.swap)
                return http_swap_push_up(session, span);

        return http_flow_push(&session->exchange.up, http_pool(session), session->exchange.upstream, span);
}

static void refuse_body(struct http_session *session, enum http1_result body) {
        const struct http_flow *up = &session->exchange.up;

        if (session->exchange.head_sent || up->begun || up->head_at > 0) {
                http_refuse_rest(session, REASON_PROTOCOL, http1_result_text(body));
                return;
        }

        stream_abort(take_ptr(&session->exchange.upstream));
        session->exchange.cut = true;
        http_refuse_bytes(session, 400, REASON_PROTOCOL, http1_result_text(body));
}

/* Each way up: 0 or the origin's error, -EAGAIN when somebody must be waited for, -ECANCELED when the exchange is over.
 */
static int copy_up(struct http_session *session) {
        struct str all, span;
        int r = http_session_body_bytes(session, &all);
        if (r == -EPIPE &&
            session->exchange.request.kind == BODY_UNTIL_CLOSE) { /* after a 101: the client has no more to say */
                session->exchange.request.done = true;
                return stream_finish(session->exchange.upstream);
        }

        if (r == -EAGAIN)
                return r;
        if (r < 0) {
                http_pump_fail_client(session, REASON_PROTOCOL);
                return -ECANCELED;
        }

        struct str bytes = all;
        enum http1_result body;

        while ((body = http_body_next(&session->exchange.request, &bytes, &span)) == HTTP1_OK) {
                r = push_up(session, span);
                if (r == -ECANCELED)
                        return r;
                if (r < 0 && r != -EAGAIN)
                        break;
        }

        int passes = check_trailers(session); /* a body without framing has no last span */
        if (passes < 0)
                return passes;

        if (session->exchange.swap && session->exchange.request.done && (r == 0 || r == -EAGAIN))
                r = http_swap_end_up(session);

        if (r == -EPROTO) { /* some of it may have left */
                http_refuse_rest(session, REASON_PROTOCOL, "a signed body that is not framed as it says");
                return -ECANCELED;
        }

        if (body != HTTP1_OK && body != HTTP1_MORE) {
                refuse_body(session, body);
                return -ECANCELED;
        }

        if (http_session_keep(session, all, all.n - bytes.n) < 0) { /* what came behind the body is the next request */
                http_pump_fail_client(session, REASON_LIMIT);
                return -ECANCELED;
        }

        return r;
}

static int splice_up(struct http_session *session) {
        ssize_t got = http_flow_splice(&session->exchange.up, http_pool(session), session->client.stream,
                                       http_body_opaque(&session->exchange.request));
        if (got == -ENOSR)
                return copy_up(session);
        if (got == -EAGAIN)
                return -EAGAIN;

        if (got <= 0 || !count_out(session, (size_t)got)) { /* nothing of it has left yet */
                http_pump_fail_client(session, got <= 0 ? REASON_PROTOCOL : REASON_LIMIT);
                return -ECANCELED;
        }

        http_body_passed(&session->exchange.request, (uint64_t)got);
        return http_flow_flush(&session->exchange.up, http_pool(session), session->exchange.upstream);
}

/* From client to origin. */
static bool pump_up(struct http_session *session) {
        if (session->exchange.up_broken)
                return false;

        bool together = session->exchange.up.head_at == 0 && session->in &&
                        !session->exchange.request.done; /* head and body leave in one packet */
        int r = 0;

        if (!together)
                r = http_flow_flush(&session->exchange.up, http_pool(session), session->exchange.upstream);

        if (r == 0 && session->exchange.request.done) {
                http_flow_rest(&session->exchange.up, http_pool(session));
                return false;
        }

        if (r == 0) {
                bool splices = !session->in && !session->exchange.swap &&
                               is_spliced(&session->exchange.request, session->exchange.bytes_out,
                                          session->client.stream, session->exchange.upstream);
                if (splices)
                        r = splice_up(session);
                else
                        r = copy_up(session);
        }

        if (r == -EAGAIN)
                http_flow_rest(&session->exchange.up, http_pool(session));
        else if (r < 0 && r != -ECANCELED)
                session->exchange.up_broken = true; /* reading tells whether it answered before it closed */

        return r == 0;
}

/* What the client is told of it, without secrets. */
static int write_head(struct http_session *session, const struct http1_response *response, enum http1_body body,
                      bool chunked_out, const char *connection) {
        size_t at = session->exchange.down.head.n;
        int e = http1_response_write(&session->exchange.down.head, response, body, chunked_out, connection);
        if (e < 0 || !session->exchange.swap)
                return e;

        return http_swap_take_head(session, response, body, at);
}

static void begin_switch(struct http_session *session, const struct http1_response *response, struct str behind) {
        int e = write_head(session, response, BODY_NONE, false, NULL);
        if (e == 0)
                e = stream_unread(session->exchange.upstream, behind);

        if (e < 0) {
                fail_upstream(session, e == -EPROTO ? REASON_UPSTREAM : REASON_LIMIT, e);
                return;
        }

        session->exchange.status = 101;
        session->exchange.head_sent = true;
        http_session_enter(session, HTTP_SWITCH);
}

/* The final head: what the client is told about the body, and whether either connection can be used again. */
static int begin_response(struct http_session *session, struct http1_response *response) {
        enum http1_body body = http1_response_body(response, session->exchange.head_method), sent = body;
        bool to_old_client = session->exchange.client_minor == 0;

        session->exchange.status = response->status;
        session->exchange.response = (struct http_body){ .kind = (uint8_t)body, .left = response->head.length };
        session->exchange.response.chunked.bare = to_old_client;
        session->exchange.response.done = body == BODY_NONE || (body == BODY_LENGTH && response->head.length == 0);
        session->exchange.keep_upstream = !response->head.close && body != BODY_UNTIL_CLOSE && !session->exchange.last;
        session->exchange.head_sent = true;

        int e = 0;

        if (session->exchange.swap)
                e = http_swap_decode(session, response, &sent);

        if (sent == BODY_UNTIL_CLOSE || (sent == BODY_CHUNKED && to_old_client) || !session->exchange.request.done)
                session->exchange.keep_client = false;
        if (e < 0)
                return e;

        return write_head(session, response, sent, !to_old_client, http_session_connection(session));
}

/* All heads in `in`, interim ones passed on. HTTP1_OK: the final one was there and *in stands behind it. */
static enum http1_result take_heads(struct http_session *session, struct str *in) {
        static _Thread_local struct http1_response response; /* large, and needed only until this function returns */

        for (;;) {
                enum http1_result r =
                    http1_response_parse(&session->exchange.back_progress, *in, POOL_CHUNK_BYTES, &response);
                if (r != HTTP1_OK)
                        return r;

                *in = str_skip(*in, response.head.bytes);
                session->exchange.back_progress = (struct http1_progress){ 0 };

                if (response.status == 101) {
                        if (!http1_response_switches(&response, str_of(session->exchange.upgrade)))
                                return HTTP1_BAD_UPGRADE;
                        begin_switch(session, &response, *in);
                        return HTTP1_OK;
                }

                if (response.status >= 200)
                        return begin_response(session, &response) < 0 ? HTTP1_TOO_LARGE : HTTP1_OK;
                if (++session->exchange.n_interim > INTERIM_MAX)
                        return HTTP1_TOO_MANY;
                if (session->exchange.client_minor > 0 && write_head(session, &response, BODY_NONE, true, NULL) < 0)
                        return HTTP1_TOO_LARGE;
        }
}

/* An unfinished head waits in a chunk of its own. */
static int keep_head(struct http_session *session, struct str left) {
        if (!session->exchange.back) {
                session->exchange.back = pool_chunk_get(http_pool(session));
                if (!session->exchange.back)
                        return -ENOMEM;
        }

        memmove(session->exchange.back->bytes, left.p, left.n);
        session->exchange.back->at = 0;
        session->exchange.back->n = left.n;

        return 0;
}

/* Bytes of the body towards the client; what comes behind it nobody asked for. */
static int pass_body(struct http_session *session, struct str bytes, enum http1_result *ret) {
        struct str span;
        int e = http_flow_is_empty(&session->exchange.down) ? 0 : -EAGAIN;
        bool any = false;

        while ((*ret = http_body_next(&session->exchange.response, &bytes, &span)) == HTTP1_OK) {
                any = true;
                session->exchange.bytes_in += span.n;
                if (session->exchange.swap)
                        e = http_swap_push_down(session, span);
                else
                        e = http_flow_push(&session->exchange.down, http_pool(session), session->client.stream, span);
                if (e < 0 && e != -EAGAIN)
                        return e;
        }

        if (*ret != HTTP1_MORE)
                return 0;
        if (bytes.n > 0)
                session->exchange.keep_upstream = false;
        if (session->exchange.swap)
                e = http_swap_settle_down(session);
        if (e < 0 && e != -EAGAIN)
                return e;

        if (any && !session->exchange.swap)
                return e;

        return http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);
}

void http_pump_fail(struct http_session *session, int error) {
        if (error == -EBADMSG)
                fail_upstream(session, REASON_UPSTREAM, error);
        else
                http_pump_fail_client(session, REASON_UPSTREAM);
}

static void take_bytes(struct http_session *session, struct str bytes) {
        enum http1_result r = HTTP1_OK;

        if (!session->exchange.head_sent) {
                r = take_heads(session, &bytes);
                if (r == HTTP1_OK && session->state == HTTP_SWITCH)
                        return;
                if (r == HTTP1_MORE && keep_head(session, bytes) < 0)
                        r = HTTP1_TOO_LARGE;
        }

        if (r == HTTP1_OK || r == HTTP1_MORE) {
                int e = pass_body(session, session->exchange.head_sent ? bytes : str_n(NULL, 0), &r);
                if (e < 0 && e != -EAGAIN) {
                        http_pump_fail(session, e);
                        return;
                }
        }

        if (r != HTTP1_OK && r != HTTP1_MORE)
                fail_upstream(session, REASON_UPSTREAM, -EBADMSG);
}

/* The bytes may lie in the chunk that the head was kept in: it is given back when all of them were looked at. */
static void take_response(struct http_session *session, struct str bytes) {
        session->exchange.answered = true;
        take_bytes(session, bytes);
        if (session->exchange.back && session->exchange.head_sent)
                pool_chunk_put(http_pool(session), take_ptr(&session->exchange.back));
}

static void end_of_upstream(struct http_session *session, int error) {
        if (!session->exchange.head_sent && try_again(session))
                return;

        if (session->exchange.head_sent && session->exchange.response.kind == BODY_UNTIL_CLOSE && error == 0) {
                session->exchange.response.done = true;
                int e = 0;

                if (session->exchange.swap)
                        e = http_swap_settle_down(session);

                if (e < 0)
                        http_pump_fail(session, e);

                return;
        }

        fail_upstream(session, REASON_UPSTREAM, error ? error : -ECONNRESET);
}

/* Bytes, or 0 or the origin's error, as stream_read(). */
static ssize_t copy_down(struct http_session *session) {
        char *to = http_pool(session)->scratch;
        size_t had = 0, room = POOL_CHUNK_BYTES;

        if (session->exchange.back) { /* never full: a head that fills it was refused */
                to = session->exchange.back->bytes;
                had = session->exchange.back->n;
                room -= had;
        }

        ssize_t got = stream_read(session->exchange.upstream, to + had, room);
        if (got > 0)
                take_response(session, str_n(to, had + (size_t)got));

        return got;
}

static ssize_t splice_down(struct http_session *session) {
        ssize_t got = http_flow_splice(&session->exchange.down, http_pool(session), session->exchange.upstream,
                                       http_body_opaque(&session->exchange.response));
        if (got == -ENOSR)
                return copy_down(session);
        if (got <= 0)
                return got;

        session->exchange.bytes_in += (uint64_t)got;
        http_body_passed(&session->exchange.response, (uint64_t)got);
        int e = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);
        if (e < 0 && e != -EAGAIN)
                http_pump_fail_client(session, REASON_UPSTREAM); /* the client does not listen any more */

        return got;
}

/* From origin to client. */
static bool pump_down(struct http_session *session) {
        int e = 0;

        if (!session->exchange.down.held)
                e = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);

        if (e == 0 && session->exchange.swap && http_swap_owes_down(session)) {
                e = http_swap_settle_down(session);
                if (e < 0)
                        http_pump_fail(session, e);
                return e == 0;
        }

        if (e == -EAGAIN || session->exchange.response.done)
                return false;

        if (e < 0) {
                http_pump_fail_client(session, REASON_UPSTREAM);
                return false;
        }

        bool splices = session->exchange.head_sent && !session->exchange.swap &&
                       is_spliced(&session->exchange.response, session->exchange.bytes_in, session->exchange.upstream,
                                  session->client.stream);
        ssize_t got = splices ? splice_down(session) : copy_down(session);
        if (got == -EAGAIN)
                http_flow_rest(&session->exchange.down, http_pool(session));
        else if (got <= 0)
                end_of_upstream(session, (int)got);

        return got != -EAGAIN && session->state == HTTP_EXCHANGE;
}

static void exchange_finish(struct http_session *session) {
        if (!session->exchange.request.done || session->exchange.up_broken)
                session->exchange.keep_client = session->exchange.keep_upstream =
                    false; /* answered before the body was sent: its rest is unknown */

        if (session->exchange.keep_upstream &&
            http_flow_is_empty(&session->exchange.up)) /* all was sent: the next request is not read as a body */
                upstream_pool_put(session->client.worker->upstreams, &session->call.target,
                                  http_session_identity(session), &session->call.addr,
                                  take_ptr(&session->exchange.upstream));
        else
                stream_close(take_ptr(&session->exchange.upstream));

        http_exchange_record(session, true);
        http_session_next(session);
}

bool http_pump_step(struct http_session *session) {
        bool moved = pump_up(session);

        if (session->state == HTTP_EXCHANGE)
                moved |= pump_down(session);
        if (session->state != HTTP_EXCHANGE)
                return session->state != HTTP_GONE && session->state != HTTP_OPENING;

        if (session->exchange.response.done && http_flow_is_empty(&session->exchange.down) &&
            !(session->exchange.swap && http_swap_owes_down(session))) {
                exchange_finish(session);
                return session->state != HTTP_GONE;
        }

        if (moved)
                http_session_limit(session, http_settings(session)->tunnel_idle_ns);

        return moved;
}

static void on_upstream(struct stream *upstream, void *owner) {
        struct http_session *session = owner;

        (void)upstream;
        session->resume(session, 0);
}

static void on_revoked(struct judged *judged, struct verdict verdict) {
        struct http_session *s = link_owner(judged, struct http_session, exchange.judged);

        judged_remove(judged);
        bool refused = verdict.decision != DECISION_ALLOW; /* else the gateway ends */
        if (refused)
                s->call.verdict = verdict;

        stream_abort(take_ptr(&s->exchange.upstream));
        if (s->switched)
                http_switch_stop(s, refused);

        http_exchange_record(s, !refused);
        http_session_end(s, true);
}

void http_pump_start(struct http_session *session) {
        if (session->exchange.swap && !http_swap_prepare(session))
                return;

        stream_set_owner(session->exchange.upstream, on_upstream, session);
        session->exchange.judged = (struct judged){ .target = &session->call.target,
                                                    .addr = session->call.addr,
                                                    .method = http_exchange_method(session),
                                                    .path = http_exchange_path(session),
                                                    .git = http_examine_git(session),
                                                    .asked = session->call.asked,
                                                    .revoke = on_revoked };
        judged_add(session->client.worker, &session->exchange.judged);

        bool full = false;
        session->exchange.host_bytes =
            quota_host(session->client.worker->gateway->quota, &session->call.target.host, &full);
        if (full || !count_out(session, session->exchange.up.head.n)) {
                fail_upstream(session, REASON_LIMIT, 0);
                return;
        }

        session->exchange.begun = true;
        http_session_enter(session, HTTP_EXCHANGE);
        http_session_limit(session, http_settings(session)->tunnel_idle_ns);
}
