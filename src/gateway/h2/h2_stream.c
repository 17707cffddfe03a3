/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its response: a stream of the client's joined to a stream of the origin's. Heads, bodies, trailers
 * and resets pass from one to the other, each with its own code; what the origin spoils before it has answered is
 * answered by us. It is on record when both are closed.
 */
#include "gateway/h2/h2_examine.h"
#include "gateway/h2/h2_swap.h"
#include "gateway/override.h"
#include "gateway/refusal.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

enum { LATE_BYTES_MAX = 1 << 20 }; /* more than a client sends before it has read the answer */

static nghttp2_session *ng_of(const struct h2_stream *stream, unsigned side) {
        return stream->session->side[side].ng;
}

/* the beginning and the end */

struct h2_stream *h2_stream_new(struct h2_session *session, int32_t id) {
        struct h2_stream *stream = alloc_zeroed(sizeof *stream);
        if (!stream)
                return NULL;

        stream->session = session;
        stream->client_id = id;
        stream->since = clock_ns();
        stream->moved = loop_now(session->client.worker->loop);
        stream->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_PROTOCOL, .rule = RULE_NONE };
        stream->generation = session->client.worker->policy->generation;
        link_init(&stream->judged.link);
        h2_flow_init(&stream->up, stream, H2_CLIENT);
        h2_flow_init(&stream->down, stream, H2_ORIGIN);
        link_append(&session->streams, &stream->link);
        session->n_streams++;
        session->used = true;
        nghttp2_session_set_stream_user_data(session->side[H2_CLIENT].ng, id, stream);
        h2_session_patrol(session);

        return stream;
}

void h2_stream_record(struct h2_stream *stream) {
        struct h2_session *session = stream->session;

        if (stream->recorded)
                return;

        stream->recorded = true;
        struct event ev = { .kind = EVENT_REQUEST,
                            .via = session->client.via,
                            .scheme = SCHEME_HTTPS,
                            .connection = session->client.number,
                            .bytes_in = stream->bytes_in,
                            .bytes_out = stream->left ? stream->bytes_out : 0,
                            .duration_us = (clock_ns() - stream->since) / 1000,
                            .rule = stream->verdict.rule,
                            .generation = stream->generation,
                            .reason = stream->verdict.reason,
                            .port = session->target.port,
                            .status = stream->status,
                            .allowed = !stream->cut && (stream->begun || !gate_was_refused(&stream->verdict)),
                            .addr = { .family = ADDR_NONE },
                            .domain = host_str(&session->target.host),
                            .method = str_of(stream->method),
                            .path = str_of(stream->path),
                            .detail = str_of(stream->why) };

        if (stream->begun)
                ev.addr = session->addr;
        if (stream->swap && stream->left)
                ev.swapped = buf_str(&stream->swap->swap.names);
        if (stream->examine)
                ev.act = buf_str(&stream->examine->examine->act);

        report_event(&session->client.worker->report, &ev);
}

void h2_stream_end(struct h2_stream *stream) {
        h2_stream_record(stream);
        judged_remove(&stream->judged);
        link_remove(&stream->link);
        stream->session->n_streams--;
        stream->session->progress = true;
        h2_flow_done(&stream->up);
        h2_flow_done(&stream->down);
        h2_examine_free(stream);
        h2_swap_free(stream);
        free(stream->method);
        free(stream->path);
        free(stream);
}

/* towards the client */

void h2_stream_reset_client(struct h2_stream *stream, uint32_t code) {
        if (stream->client_id)
                nghttp2_submit_rst_stream(ng_of(stream, H2_CLIENT), NGHTTP2_FLAG_NONE, stream->client_id, code);
        h2_flow_drop(&stream->down);
}

static void reset_origin(struct h2_stream *stream, uint32_t code) {
        /* Once: the first takes back a request that has not left yet, and a second would be about no stream at all. */
        if (stream->origin_id && !stream->taken_back)
                nghttp2_submit_rst_stream(ng_of(stream, H2_ORIGIN), NGHTTP2_FLAG_NONE, stream->origin_id, code);
        stream->taken_back = stream->taken_back || stream->origin_id;
        h2_flow_drop(&stream->up);
}

/* For what the client sent behind its head. */
static void reset_for_client(struct h2_stream *stream) {
        if (stream->origin_id && !stream->taken_back)
                h2_count_given_up(stream);
        reset_origin(stream, NGHTTP2_CANCEL);
}

void h2_stream_answer(struct h2_stream *stream, const struct h2_nvs *head, struct str body) {
        stream->state = H2_ANSWERED;
        h2_examine_withdraw(stream);
        judged_remove(&stream->judged);
        reset_origin(stream, NGHTTP2_CANCEL);

        if (!stream->client_id)
                return;

        stream->head_sent = true;
        nghttp2_data_provider provider = h2_flow_provider(&stream->down);
        bool has_body = body.n > 0 && !(stream->method && str_is(str_of(stream->method), "HEAD"));
        if ((has_body && h2_flow_own(&stream->down, body) < 0) ||
            nghttp2_submit_response(ng_of(stream, H2_CLIENT), stream->client_id, head->at, head->n,
                                    has_body ? &provider : NULL) < 0)
                h2_stream_reset_client(stream, NGHTTP2_INTERNAL_ERROR);
}

void h2_stream_fail(struct h2_stream *stream, enum reason reason, int error) {
        refusal_decide(&stream->verdict, reason);
        stream->error = error;
        judged_remove(&stream->judged);
        stream->state = H2_ANSWERED;
        reset_origin(stream, NGHTTP2_CANCEL);

        if (stream->head_sent)
                h2_stream_reset_client(stream, NGHTTP2_INTERNAL_ERROR);
        else
                h2_refuse(stream);
}

void h2_stream_cut(struct h2_stream *stream, enum reason reason, const char *why) {
        refusal_decide(&stream->verdict, reason);
        stream->why = why;
        stream->cut = true;
        judged_remove(&stream->judged);
        stream->state = H2_ANSWERED;
        reset_for_client(stream);

        if (stream->head_sent)
                h2_stream_reset_client(stream, NGHTTP2_INTERNAL_ERROR);
        else if (stream->begun)
                h2_refuse_rest(stream);
        else
                h2_refuse(stream);
}

/* More than was announced, or nothing was. */
static void refuse_large(struct h2_stream *stream) {
        if (stream->begun) {
                h2_stream_cut(stream, REASON_LIMIT, REFUSAL_LARGE_BODY);
                return;
        }

        stream->cut = true;
        stream->why = REFUSAL_LARGE_BODY;
        stream->state = H2_ANSWERED;
        h2_refuse_bytes(stream, 413, REASON_LIMIT, REFUSAL_LARGE_BODY);
}

void h2_stream_expire(struct h2_stream *stream) {
        bool answered = stream->state == H2_ANSWERED;

        stream->moved = loop_now(stream->session->client.worker->loop);
        if (stream->state == H2_DRAINING) {
                h2_examine_ended(stream); /* the answer does not wait for the rest any longer, and keeps its reason */
                return;
        }

        if (stream->state == H2_KEEPING || stream->state == H2_EXAMINING)
                h2_refuse_bytes(stream, 408, REASON_TIMEOUT, "The request's body did not arrive in time");
        else if (!answered)
                h2_stream_fail(stream, REASON_TIMEOUT, -ETIMEDOUT);
        else if (stream->down.sent)
                h2_stream_reset_client(stream, NGHTTP2_NO_ERROR); /* it has the answer, and does not end its body */
        else
                h2_stream_reset_client(stream, NGHTTP2_CANCEL); /* it does not read the answer */
}

void h2_stream_spoil(struct h2_stream *stream, unsigned side) {
        if (side == H2_ORIGIN) {
                h2_stream_fail(stream, REASON_UPSTREAM, -EBADMSG);
                return;
        }

        stream->state = H2_ANSWERED;
        stream->why = "A header field has bytes that it may not have.";
        refusal_decide(&stream->verdict, REASON_PROTOCOL);
        stream->cut = true; /* its trailers, if it had begun */
        reset_for_client(stream);
        h2_stream_reset_client(stream, NGHTTP2_PROTOCOL_ERROR);
}

/* A client that still sends its body when the answer and a reset arrive together loses the answer: curl 7.88 shows its
 * user an error of HTTP/2 instead of our refusal. What it sends until it has read the answer may come. curl stops then;
 * what is left of a small body ends the stream, and a larger one is cut off. */
static bool may_end_itself(const struct h2_stream *stream) {
        return stream->state == H2_ANSWERED && stream->late <= LATE_BYTES_MAX;
}

void h2_stream_settle(struct h2_stream *stream) {
        if (stream->down.sent && !stream->up.ended && !stream->origin_id && stream->client_id &&
            !may_end_itself(stream))
                nghttp2_submit_rst_stream(ng_of(stream, H2_CLIENT), NGHTTP2_FLAG_NONE, stream->client_id,
                                          NGHTTP2_NO_ERROR);
}

/* Bytes of a body that nobody wants any more. */
static void take_late(struct h2_stream *stream, size_t n) {
        if (!may_end_itself(stream))
                return;

        stream->late += (uint32_t)(n < LATE_BYTES_MAX ? n : LATE_BYTES_MAX + 1);
        h2_stream_settle(stream);
}

/* towards the origin */

static void on_revoked(struct judged *j, struct verdict verdict) {
        struct h2_stream *stream = link_owner(j, struct h2_stream, judged);
        struct h2_session *session = stream->session;

        if (verdict.decision == DECISION_ALLOW) { /* the gateway ends */
                h2_session_end(session, true);
                return;
        }

        judged_remove(j);
        stream->verdict = verdict;
        stream->generation = session->client.worker->policy->generation;
        stream->state = H2_ANSWERED;
        stream->begun = false; /* on record as refused, as an open tunnel that is closed is */
        reset_origin(stream, NGHTTP2_CANCEL);

        if (stream->head_sent)
                h2_stream_reset_client(stream, NGHTTP2_CANCEL);
        else
                h2_refuse(stream);

        loop_soon(session->client.worker->loop, &session->later);
}

static bool count_out(struct h2_stream *stream, size_t n) {
        stream->bytes_out += n;
        return quota_sent(stream->session->client.worker->gateway->quota, stream->session->host_bytes, n);
}

/* What was refused before is thrown away, whatever its size: the answer keeps its reason. */
static bool body_fits(struct h2_stream *stream, size_t n) {
        uint64_t limit = h2_settings(stream->session)->body_bytes;

        stream->body_bytes += n;
        return limit == 0 || stream->state == H2_ANSWERED || stream->body_bytes <= limit;
}

int h2_stream_send(struct h2_stream *stream, const struct h2_nvs *head) {
        struct h2_session *session = stream->session;
        size_t size = 0;

        for (size_t i = 0; i < head->n; i++)
                size += head->at[i].namelen + head->at[i].valuelen;

        if (!count_out(stream, size))
                return -EDQUOT;

        nghttp2_data_provider provider = h2_flow_provider(&stream->up);
        bool whole = stream->up.ended && !stream->up.worked && stream->up.bytes.n == 0 && !stream->up.trailers;
        int32_t id =
            nghttp2_submit_request(ng_of(stream, H2_ORIGIN), NULL, head->at, head->n, whole ? NULL : &provider, stream);
        if (id == NGHTTP2_ERR_NOMEM)
                return -ENOMEM;
        if (id < 0)
                return -ECONNRESET;

        stream->origin_id = id;
        stream->begun = true;
        stream->up.sent = whole;
        stream->state = H2_PASSING;
        stream->judged = (struct judged){ .target = &session->target,
                                          .addr = session->addr,
                                          .asked = stream->asked,
                                          .method = str_of(stream->method),
                                          .path = str_of(stream->path),
                                          .git = h2_examine_git(stream),
                                          .revoke = on_revoked };
        judged_add(session->client.worker, &stream->judged);

        return 0;
}

/* what comes */

void h2_stream_take_response(struct h2_stream *stream, bool ended) {
        struct h2_fields *fields = stream->session->side[H2_ORIGIN].fields;
        struct str status = h2_fields_find(fields, ":status");
        struct h2_nvs head = { 0 };
        uint64_t code = 0;

        if (stream->state != H2_PASSING || !stream->client_id)
                return;

        stream->moved = loop_now(stream->session->client.worker->loop);

        if (fields->too_large || !str_to_u64(status, 999, &code) || code < 100) {
                h2_stream_fail(stream, REASON_UPSTREAM, -EBADMSG);
                return;
        }

        int r = h2_swap_take_head(stream, fields, (unsigned)code, ended);
        if (r < 0) {
                h2_stream_fail(stream, r == -EPROTO ? REASON_UPSTREAM : REASON_LIMIT, r);
                return;
        }

        h2_nvs_add(&head, STR(":status"), h2_fields_find(fields, ":status"), false); /* the text may have moved */
        h2_nvs_add_fields(&head, fields);

        if (code < 200) {
                if (++stream->n_interim > H2_INTERIM_MAX) {
                        h2_stream_fail(stream, REASON_UPSTREAM, -EBADMSG);
                        return;
                }

                r = nghttp2_submit_headers(ng_of(stream, H2_CLIENT), NGHTTP2_FLAG_NONE, stream->client_id, NULL,
                                           head.at, head.n, NULL);
        } else {
                nghttp2_data_provider provider = h2_flow_provider(&stream->down);

                stream->status = (uint16_t)code;
                stream->head_sent = true;
                stream->down.ended = ended;
                r = nghttp2_submit_response(ng_of(stream, H2_CLIENT), stream->client_id, head.at, head.n,
                                            ended ? NULL : &provider);
        }

        if (r < 0)
                h2_stream_fail(stream, REASON_LIMIT, -ENOMEM);
}

void h2_stream_take_data(struct h2_flow *flow, const uint8_t *p, size_t n) {
        struct h2_stream *stream = flow->stream;
        struct h2_side *from = &stream->session->side[flow->from];

        if (flow->from == H2_CLIENT && stream->state == H2_DRAINING) {
                nghttp2_session_consume(from->ng, stream->client_id, n);
                stream->moved = loop_now(stream->session->client.worker->loop);
                h2_examine_add(stream, str_n(p, n));
                return;
        }

        if (flow->dropped || flow->own) {
                nghttp2_session_consume(from->ng, flow->from == H2_CLIENT ? stream->client_id : stream->origin_id, n);
                if (flow->from == H2_CLIENT)
                        take_late(stream, n);
                return;
        }

        if (flow->from == H2_CLIENT && !body_fits(stream, n)) {
                nghttp2_session_consume_connection(from->ng, n);
                refuse_large(stream);
                return;
        }

        if (flow->from == H2_CLIENT && !count_out(stream, n)) {
                nghttp2_session_consume_connection(from->ng, n);
                h2_stream_fail(stream, REASON_LIMIT, 0);
                return;
        }

        stream->moved = loop_now(stream->session->client.worker->loop);
        if (flow->from == H2_ORIGIN)
                stream->bytes_in += n;

        if (stream->state == H2_EXAMINING) {
                nghttp2_session_consume(from->ng, stream->client_id, n);
                h2_examine_add(stream, str_n(p, n));
                return;
        }

        if (stream->state == H2_KEEPING) {
                nghttp2_session_consume(from->ng, stream->client_id, n);
                h2_swap_keep(stream, str_n(p, n));
                return;
        }

        h2_flow_received(flow, n);

        if (h2_swap_add(flow, (char *)p, n) < 0) { /* in our own scratch area */
                h2_stream_fail(stream, REASON_LIMIT, -ENOMEM);
                return;
        }

        h2_flow_resume(flow);
}

/* What would have been refused before the body is no better behind it. */
static bool has_override(const struct h2_fields *fields) {
        for (size_t i = 0; i < fields->n; i++)
                if (override_find(h2_field_name(fields, i)))
                        return true;
        return false;
}

/* False when the stream is over for what is in them. */
static bool trailers_pass(struct h2_stream *stream, const struct h2_side *from) {
        const struct h2_fields *fields = from->fields;

        if (from->index == H2_ORIGIN) {
                if (fields->too_large)
                        h2_stream_fail(stream, REASON_UPSTREAM, -EMSGSIZE);
                return !fields->too_large;
        }

        if (fields->too_large)
                h2_stream_cut(stream, REASON_PROTOCOL, "its trailers are too large");
        else if (!h2_swap_trailers_pass(stream, fields))
                h2_stream_cut(stream, REASON_CREDENTIAL, INJECT_IN_TRAILERS);
        else if (stream->verdict.needs_request && has_override(fields))
                h2_stream_cut(stream, REASON_METHOD, "a header that changes the request came behind its body");
        else
                return true;

        return false;
}

/* The list that was received becomes the flow's; the next one gets a new one. */
void h2_stream_take_trailers(struct h2_flow *flow) {
        struct h2_side *from = &flow->stream->session->side[flow->from];

        if (flow->dropped || flow->own || flow->trailers)
                return;

        if (!trailers_pass(flow->stream, from))
                return;

        struct h2_fields *next = h2_fields_new(from->fields->max);
        if (!next) {
                h2_stream_fail(flow->stream, REASON_LIMIT, -ENOMEM);
                return;
        }

        if (flow->from == H2_ORIGIN)
                h2_swap_scrub_fields(flow->stream, from->fields);

        flow->trailers = from->fields;
        from->fields = next;
}

void h2_stream_take_end(struct h2_flow *flow) {
        if (flow->from == H2_CLIENT && flow->stream->state == H2_DRAINING) {
                flow->ended = true;
                h2_examine_ended(flow->stream);
                return;
        }

        if (flow->own || flow->dropped) {
                flow->ended |= flow->dropped && flow->from == H2_CLIENT; /* nothing to tell it any more */
                return;
        }

        if (h2_swap_end(flow) < 0) {
                h2_stream_fail(flow->stream, REASON_LIMIT, -ENOMEM);
                return;
        }

        flow->ended = true;
        if (flow->stream->state == H2_EXAMINING)
                h2_examine_ended(flow->stream);
        else if (flow->stream->state == H2_KEEPING)
                h2_swap_kept(flow->stream);
        else
                h2_flow_resume(flow);
}

/* Closed before its time: by the client, or by nghttp2, which resets what breaks the rules of HTTP. */
static void h2_stream_explain(struct h2_stream *stream) {
        if (stream->client_reset) {
                stream->why = "The client reset the stream.";
                return;
        }

        stream->why = "The body does not fit its content-length, or the trailers are not valid.";
        refusal_decide(&stream->verdict, REASON_PROTOCOL);
        stream->cut = true;
}

/* By what was judged of it, it may leave or has left. */
static bool is_undecided(const struct h2_stream *stream) {
        return stream->state != H2_HEAD && stream->state != H2_DRAINING && stream->state != H2_ANSWERED;
}

static bool is_passed_on(const struct h2_stream *stream, uint32_t code) {
        return stream->origin_reset || code == NGHTTP2_REFUSED_STREAM;
}

void h2_stream_closed(struct h2_stream *stream, unsigned side, uint32_t code) {
        if (side == H2_CLIENT) {
                stream->client_id = 0;
                if (code != NGHTTP2_NO_ERROR && is_undecided(stream) && !stream->why)
                        h2_stream_explain(stream);

                h2_flow_drop(&stream->down);
                if (code != NGHTTP2_NO_ERROR || !stream->up.ended)
                        reset_origin(stream, code ? code : NGHTTP2_CANCEL);

                return;
        }

        if (!stream->origin_id)
                return;

        stream->origin_id = 0;
        h2_flow_drop(&stream->up);
        if (!stream->client_id)
                return;

        if (stream->down.ended || stream->state != H2_PASSING) {
                h2_stream_settle(stream);
        } else if (is_passed_on(stream, code)) {
                stream->verdict.reason = REASON_UPSTREAM;
                stream->why = "The origin reset the stream.";
                h2_stream_reset_client(stream, code);
        } else {
                h2_stream_fail(stream, REASON_UPSTREAM, -EBADMSG);
        }
}
