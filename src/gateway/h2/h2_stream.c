/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its response: a stream of the client's joined to a stream of the origin's. Heads, bodies, trailers
 * and resets pass from one to the other, each with its own code; what the origin spoils before it has answered is
 * answered by us. It is on record when both are closed.
 */
#include "gateway/h2/h2_examine.h"
#include "gateway/h2/h2_swap.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

static nghttp2_session *ng_of(const struct h2_stream *t, unsigned side) {
        return t->session->side[side].ng;
}

/* the beginning and the end */

struct h2_stream *h2_stream_new(struct h2_session *s, int32_t id) {
        struct h2_stream *t = alloc_zeroed(sizeof *t);
        if (!t)
                return NULL;
        t->session = s;
        t->client_id = id;
        t->since = clock_ns();
        t->moved = loop_now(s->client.worker->loop);
        t->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_PROTOCOL, .rule = RULE_NONE };
        t->generation = s->client.worker->policy->generation;
        link_init(&t->judged.link);
        h2_flow_init(&t->up, t, H2_CLIENT);
        h2_flow_init(&t->down, t, H2_ORIGIN);
        link_append(&s->streams, &t->link);
        s->n_streams++;
        s->used = true;
        nghttp2_session_set_stream_user_data(s->side[H2_CLIENT].ng, id, t);
        h2_session_patrol(s);
        return t;
}

void h2_stream_record(struct h2_stream *t) {
        struct h2_session *s = t->session;
        if (t->recorded)
                return;
        t->recorded = true;
        report_event(&s->client.worker->report,
                     &(struct event){ .kind = EVENT_REQUEST,
                                      .via = s->client.via,
                                      .scheme = SCHEME_HTTPS,
                                      .connection = s->client.number,
                                      .bytes_in = t->bytes_in,
                                      .bytes_out = t->bytes_out,
                                      .duration_us = (clock_ns() - t->since) / 1000,
                                      .rule = t->verdict.rule,
                                      .generation = t->generation,
                                      .reason = t->verdict.reason,
                                      .port = s->target.port,
                                      .status = t->status,
                                      .allowed = !t->cut && (t->begun || !gate_was_refused(&t->verdict)),
                                      .addr = t->begun ? s->addr : (struct addr){ .family = ADDR_NONE },
                                      .domain = host_str(&s->target.host),
                                      .method = str_of(t->method),
                                      .path = str_of(t->path),
                                      .swapped = t->swap ? buf_str(&t->swap->names) : STR(""),
                                      .detail = str_of(t->why),
                                      .act = t->examine ? buf_str(&t->examine->examine->act) : STR("") });
}

void h2_stream_end(struct h2_stream *t) {
        h2_stream_record(t);
        judged_remove(&t->judged);
        link_remove(&t->link);
        t->session->n_streams--;
        t->session->progress = true;
        h2_flow_done(&t->up);
        h2_flow_done(&t->down);
        h2_examine_free(t);
        h2_swap_free(t);
        free(t->method);
        free(t->path);
        free(t);
}

/* towards the client */

void h2_stream_reset_client(struct h2_stream *t, uint32_t code) {
        if (t->client_id)
                nghttp2_submit_rst_stream(ng_of(t, H2_CLIENT), NGHTTP2_FLAG_NONE, t->client_id, code);
        h2_flow_drop(&t->down);
}

static void reset_origin(struct h2_stream *t, uint32_t code) {
        if (t->origin_id)
                nghttp2_submit_rst_stream(ng_of(t, H2_ORIGIN), NGHTTP2_FLAG_NONE, t->origin_id, code);
        h2_flow_drop(&t->up);
}

void h2_stream_answer(struct h2_stream *t, const struct h2_nvs *head, struct str body) {
        t->state = H2_ANSWERED;
        judged_remove(&t->judged);
        reset_origin(t, NGHTTP2_CANCEL);
        if (!t->client_id)
                return;
        t->head_sent = true;
        nghttp2_data_provider provider = h2_flow_provider(&t->down);
        bool has_body = body.n > 0 && !(t->method && str_is(str_of(t->method), "HEAD"));
        if ((has_body && h2_flow_own(&t->down, body) < 0) ||
            nghttp2_submit_response(ng_of(t, H2_CLIENT), t->client_id, head->at, head->n, has_body ? &provider : NULL) <
                0)
                h2_stream_reset_client(t, NGHTTP2_INTERNAL_ERROR);
}

void h2_stream_fail(struct h2_stream *t, enum reason reason, int error) {
        t->verdict.decision = DECISION_DENY;
        t->verdict.reason = (uint8_t)reason;
        t->error = error;
        judged_remove(&t->judged);
        t->state = H2_ANSWERED;
        reset_origin(t, NGHTTP2_CANCEL);
        if (t->head_sent)
                h2_stream_reset_client(t, NGHTTP2_INTERNAL_ERROR);
        else
                h2_refuse(t);
}

/* Trailers that may not leave. Whatever came before them may be at the origin already. */
static void h2_stream_cut(struct h2_stream *t, const char *why) {
        t->verdict.decision = DECISION_DENY;
        t->verdict.reason = REASON_CREDENTIAL;
        t->why = why;
        t->cut = true;
        judged_remove(&t->judged);
        t->state = H2_ANSWERED;
        reset_origin(t, NGHTTP2_CANCEL);
        if (t->head_sent)
                h2_stream_reset_client(t, NGHTTP2_INTERNAL_ERROR);
        else if (t->begun)
                h2_refuse_rest(t);
        else
                h2_refuse(t);
}

void h2_stream_expire(struct h2_stream *t) {
        bool answered = t->state == H2_ANSWERED;
        t->moved = loop_now(t->session->client.worker->loop);
        if (t->state == H2_KEEPING || t->state == H2_EXAMINING)
                h2_refuse_bytes(t, 408, REASON_TIMEOUT, "The request's body did not arrive in time");
        else if (!answered)
                h2_stream_fail(t, REASON_TIMEOUT, -ETIMEDOUT);
        else
                h2_stream_reset_client(t, NGHTTP2_CANCEL); /* it does not read the answer */
}

void h2_stream_spoil(struct h2_stream *t, unsigned side) {
        if (side == H2_ORIGIN) {
                h2_stream_fail(t, REASON_UPSTREAM, -EBADMSG);
                return;
        }
        t->state = H2_ANSWERED;
        t->why = "A header field has bytes that it may not have.";
        t->verdict.reason = REASON_PROTOCOL;
        reset_origin(t, NGHTTP2_CANCEL);
        h2_stream_reset_client(t, NGHTTP2_PROTOCOL_ERROR);
}

void h2_stream_settle(struct h2_stream *t) {
        if (t->down.sent && !t->up.ended && !t->origin_id && t->client_id)
                nghttp2_submit_rst_stream(ng_of(t, H2_CLIENT), NGHTTP2_FLAG_NONE, t->client_id, NGHTTP2_NO_ERROR);
}

/* towards the origin */

static void on_revoked(struct judged *j, struct verdict v) {
        struct h2_stream *t = link_owner(j, struct h2_stream, judged);
        struct h2_session *s = t->session;
        if (v.decision == DECISION_ALLOW) { /* the gateway ends */
                h2_session_end(s, true);
                return;
        }
        judged_remove(j);
        t->verdict = v;
        t->generation = s->client.worker->policy->generation;
        t->state = H2_ANSWERED;
        t->begun = false; /* on record as refused, as an open tunnel that is closed is */
        reset_origin(t, NGHTTP2_CANCEL);
        if (t->head_sent)
                h2_stream_reset_client(t, NGHTTP2_CANCEL);
        else
                h2_refuse(t);
        loop_soon(s->client.worker->loop, &s->later);
}

static bool count_out(struct h2_stream *t, size_t n) {
        t->bytes_out += n;
        return quota_sent(t->session->client.worker->gateway->quota, t->session->host_bytes, n);
}

int h2_stream_send(struct h2_stream *t, const struct h2_nvs *head) {
        struct h2_session *s = t->session;
        size_t size = 0;
        for (size_t i = 0; i < head->n; i++)
                size += head->at[i].namelen + head->at[i].valuelen;
        if (!count_out(t, size))
                return -EDQUOT;
        nghttp2_data_provider provider = h2_flow_provider(&t->up);
        bool whole = t->up.ended && !t->up.worked && t->up.bytes.n == 0 && !t->up.trailers;
        int32_t id = nghttp2_submit_request(ng_of(t, H2_ORIGIN), NULL, head->at, head->n, whole ? NULL : &provider, t);
        if (id < 0)
                return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ECONNRESET;
        t->origin_id = id;
        t->begun = true;
        t->up.sent = whole;
        t->state = H2_PASSING;
        t->judged = (struct judged){ .target = &s->target,
                                     .addr = s->addr,
                                     .asked = t->asked,
                                     .method = str_of(t->method),
                                     .path = str_of(t->path),
                                     .git = h2_examine_git(t),
                                     .revoke = on_revoked };
        judged_add(s->client.worker, &t->judged);
        return 0;
}

/* what comes */

void h2_stream_take_response(struct h2_stream *t, bool ended) {
        struct h2_fields *fields = t->session->side[H2_ORIGIN].fields;
        struct str status = h2_fields_find(fields, ":status");
        struct h2_nvs head = { 0 };
        uint64_t code = 0;
        if (t->state != H2_PASSING || !t->client_id)
                return;
        t->moved = loop_now(t->session->client.worker->loop);
        if (fields->too_large || !str_to_u64(status, 999, &code) || code < 100) {
                h2_stream_fail(t, REASON_UPSTREAM, -EBADMSG);
                return;
        }
        int r = h2_swap_take_head(t, fields, (unsigned)code, ended);
        if (r < 0) {
                h2_stream_fail(t, r == -EPROTO ? REASON_UPSTREAM : REASON_LIMIT, r);
                return;
        }
        h2_nvs_add(&head, STR(":status"), h2_fields_find(fields, ":status"), false); /* the text may have moved */
        h2_nvs_add_fields(&head, fields);
        if (code < 200) {
                if (++t->n_interim > H2_INTERIM_MAX) {
                        h2_stream_fail(t, REASON_UPSTREAM, -EBADMSG);
                        return;
                }
                r = nghttp2_submit_headers(ng_of(t, H2_CLIENT), NGHTTP2_FLAG_NONE, t->client_id, NULL, head.at, head.n,
                                           NULL);
        } else {
                nghttp2_data_provider provider = h2_flow_provider(&t->down);
                t->status = (uint16_t)code;
                t->head_sent = true;
                t->down.ended = ended;
                r = nghttp2_submit_response(ng_of(t, H2_CLIENT), t->client_id, head.at, head.n,
                                            ended ? NULL : &provider);
        }
        if (r < 0)
                h2_stream_fail(t, REASON_LIMIT, -ENOMEM);
}

void h2_stream_take_data(struct h2_flow *f, const uint8_t *p, size_t n) {
        struct h2_stream *t = f->stream;
        struct h2_side *from = &t->session->side[f->from];
        if (f->dropped || f->own) {
                nghttp2_session_consume(from->ng, f->from == H2_CLIENT ? t->client_id : t->origin_id, n);
                return;
        }
        if (f->from == H2_CLIENT && !count_out(t, n)) {
                nghttp2_session_consume_connection(from->ng, n);
                h2_stream_fail(t, REASON_LIMIT, 0);
                return;
        }
        t->moved = loop_now(t->session->client.worker->loop);
        if (f->from == H2_ORIGIN)
                t->bytes_in += n;
        if (t->state == H2_EXAMINING || t->state == H2_DRAINING) {
                nghttp2_session_consume(from->ng, t->client_id, n);
                h2_examine_add(t, str_n(p, n));
                return;
        }
        if (t->state == H2_KEEPING) {
                nghttp2_session_consume(from->ng, t->client_id, n);
                h2_swap_keep(t, str_n(p, n));
                return;
        }
        h2_flow_received(f, n);
        if (h2_swap_add(f, (char *)p, n) < 0) { /* in our own scratch area */
                h2_stream_fail(t, REASON_LIMIT, -ENOMEM);
                return;
        }
        h2_flow_resume(f);
}

/* The list that was received becomes the flow's; the next one gets a new one. */
void h2_stream_take_trailers(struct h2_flow *f) {
        struct h2_side *from = &f->stream->session->side[f->from];
        if (f->dropped || f->own || f->trailers)
                return;
        struct h2_fields *next = h2_fields_new(from->fields->max);
        if (from->fields->too_large || !next) {
                h2_fields_free(next);
                h2_stream_fail(f->stream, from->index == H2_CLIENT ? REASON_PROTOCOL : REASON_UPSTREAM, -EMSGSIZE);
                return;
        }
        if (f->from == H2_CLIENT && !h2_swap_trailers_pass(f->stream, from->fields)) {
                h2_fields_free(next);
                h2_stream_cut(f->stream, INJECT_IN_TRAILERS);
                return;
        }
        if (f->from == H2_ORIGIN)
                h2_swap_scrub_fields(f->stream, from->fields);
        f->trailers = from->fields;
        from->fields = next;
}

void h2_stream_take_end(struct h2_flow *f) {
        if (f->own || f->dropped) {
                f->ended |= f->dropped && f->from == H2_CLIENT; /* nothing to tell it any more */
                return;
        }
        if (h2_swap_end(f) < 0) {
                h2_stream_fail(f->stream, REASON_LIMIT, -ENOMEM);
                return;
        }
        f->ended = true;
        if (f->stream->state == H2_EXAMINING || f->stream->state == H2_DRAINING)
                h2_examine_ended(f->stream);
        else if (f->stream->state == H2_KEEPING)
                h2_swap_kept(f->stream);
        else
                h2_flow_resume(f);
}

/* Closed before its time: by the client, or by nghttp2, which resets what breaks the rules of HTTP. */
static void h2_stream_explain(struct h2_stream *t) {
        if (t->client_reset) {
                t->why = "The client reset the stream.";
                return;
        }
        t->why = "The body does not fit its content-length, or the trailers are not valid.";
        t->verdict.decision = DECISION_DENY;
        t->verdict.reason = REASON_PROTOCOL;
        t->cut = true;
}

static bool is_passed_on(const struct h2_stream *t, uint32_t code) {
        return t->origin_reset || code == NGHTTP2_REFUSED_STREAM;
}

void h2_stream_closed(struct h2_stream *t, unsigned side, uint32_t code) {
        if (side == H2_CLIENT) {
                t->client_id = 0;
                if (code != NGHTTP2_NO_ERROR && t->state == H2_PASSING && !t->why)
                        h2_stream_explain(t);
                h2_flow_drop(&t->down);
                if (code != NGHTTP2_NO_ERROR || !t->up.ended)
                        reset_origin(t, code ? code : NGHTTP2_CANCEL);
                return;
        }
        if (!t->origin_id)
                return;
        t->origin_id = 0;
        h2_flow_drop(&t->up);
        if (!t->client_id)
                return;
        if (t->down.ended || t->state != H2_PASSING) {
                h2_stream_settle(t);
        } else if (is_passed_on(t, code)) {
                t->verdict.reason = REASON_UPSTREAM;
                t->why = "The origin reset the stream.";
                h2_stream_reset_client(t, code);
        } else {
                h2_stream_fail(t, REASON_UPSTREAM, -EBADMSG);
        }
}
