/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's head: where it wants to go, whether it may, and what leaves. The same rules as for HTTP/1 inside TLS
 * (http_request.c): the authority of every stream must be the one that the connection was opened for, and what is
 * written to the origin is our own text of it. nghttp2 has checked the form before: pseudo fields, fields that belong
 * to a connection, lengths; a stream that fails there is reset and on record.
 */
#include "gateway/h2/h2_examine.h"
#include "gateway/h2/h2_swap.h"
#include "gateway/override.h"
#include "gateway/refusal.h"
#include "gateway/wire/http1_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

/* answers of our own */

static void answer_as(struct h2_stream *t, unsigned status, enum reason reason, const char *type, struct str text) {
        char number[8], length[24];
        struct h2_nvs head = { 0 };
        t->status = (uint16_t)status;
        h2_nvs_add(&head, STR(":status"), str_n(number, (size_t)snprintf(number, sizeof number, "%u", status)), false);
        h2_nvs_add(&head, STR("content-type"), str_of(type), false);
        h2_nvs_add(&head, STR("content-length"), str_n(length, (size_t)snprintf(length, sizeof length, "%zu", text.n)),
                   false);
        h2_nvs_add(&head, STR("cache-control"), STR("no-store"), false);
        h2_nvs_add(&head, STR("x-bailey-reason"), str_of(reason_code(reason)), false);
        h2_stream_answer(t, &head, text);
}

static void answer(struct h2_stream *t, unsigned status, enum reason reason, struct str text) {
        answer_as(t, status, reason, "text/plain; charset=utf-8", text);
}

void h2_refuse_as(struct h2_stream *t, unsigned status, const char *type, struct str content) {
        answer_as(t, status, (enum reason)t->verdict.reason, type, content);
}

void h2_refuse(struct h2_stream *t) {
        struct h2_session *s = t->session;
        if (h2_examine_refuse(t))
                return;
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);
        const struct verdict *v = &t->verdict;
        if (refusal_text(&text, worker_snapshot(s->client.worker), &s->target, v, t->error, t->why) < 0 ||
            buf_add_char(&text, '\n') < 0)
                buf_clear(&text);
        answer(t, v->reason == REASON_METHOD ? 405 : refusal_status(v, t->error), (enum reason)v->reason,
               buf_str(&text));
}

void h2_refuse_rest(struct h2_stream *t) {
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);

        if (refusal_rest_text(&text, &t->session->target, t->why) < 0 || buf_add_char(&text, '\n') < 0)
                buf_clear(&text);
        answer(t, 403, (enum reason)t->verdict.reason, buf_str(&text));
}

void h2_refuse_bytes(struct h2_stream *t, unsigned status, enum reason reason, const char *what) {
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);
        t->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
        if (buf_printf(&text,
                       "Bailey did not forward this request: %s.\n"
                       "Sending the same bytes again will not help; the request itself must change.\n",
                       what) < 0)
                buf_clear(&text);
        answer(t, status, reason, buf_str(&text));
}

/* judging */

struct request {
        struct str method, scheme, path;
};

/* Authority and Host name the target, or the status to refuse it with. */
static unsigned settle_authority(const struct h2_session *s, const struct h2_fields *f, enum reason *ret_reason) {
        for (size_t i = 0; i < f->n; i++) {
                struct authority named;
                if (!str_is(h2_field_name(f, i), ":authority") && !str_is(h2_field_name(f, i), "host"))
                        continue;
                *ret_reason = REASON_BAD_NAME;
                if (authority_parse(h2_field_value(f, i), 443, &named, NULL) < 0)
                        return 400;
                *ret_reason = REASON_FRONTING;
                if (!host_equal(&named.host, &s->target.host) || named.port != s->target.port)
                        return 421;
        }
        return 0;
}

static bool is_path(struct str method, struct str path) {
        const char *end = path.p + path.n;
        if (str_is(path, "*"))
                return str_is(method, "OPTIONS");
        if (path.n == 0 || path.p[0] != '/')
                return false;
        const char *at = http1_skip(path.p, end, CHAR_PATH);
        if (at < end && *at == '?')
                at = http1_skip(at + 1, end, CHAR_QUERY);
        return at == end;
}

/* For the record, and for a policy that changes while it runs. */
static int remember(struct h2_stream *t, const struct request *r) {
        t->method = str_dup(str_first(r->method, HTTP1_METHOD_MAX));
        t->path = str_dup(http1_path_only(r->path));
        return t->method && t->path ? 0 : -ENOMEM;
}

/* False when it was answered. */
static bool is_sound(struct h2_stream *t, const struct h2_fields *f, const struct request *r) {
        enum reason reason = REASON_PROTOCOL;
        if (f->too_large) {
                h2_refuse_bytes(t, 431, REASON_PROTOCOL, "Its header is too large");
                return false;
        }
        if (str_is(r->method, "CONNECT")) {
                h2_refuse_bytes(t, 405, REASON_METHOD, "CONNECT is for proxies, and this connection goes to an origin");
                return false;
        }
        if (str_is(r->method, "TRACE")) {
                h2_refuse_bytes(t, 405, REASON_METHOD, "TRACE is not supported");
                return false;
        }
        if (r->method.n == 0 || r->method.n > HTTP1_METHOD_MAX || !str_is(r->scheme, "https") ||
            !is_path(r->method, r->path)) {
                h2_refuse_bytes(t, 400, REASON_PROTOCOL, "Its method, scheme or path is not valid here");
                return false;
        }
        unsigned status = settle_authority(t->session, f, &reason);
        if (status)
                h2_refuse_bytes(t, status, reason,
                                reason == REASON_FRONTING ? "Its authority is another than this connection is for"
                                                          : "Its authority is not valid");
        return status == 0;
}

/* When its head has just come, what else must be seen of it is found out. */
static struct verdict judge_visible(struct h2_stream *t, struct str method, struct verdict granted) {
        struct h2_session *s = t->session;

        if (t->examine)
                return h2_examine_again(t, granted);
        if (t->state == H2_HEAD)
                return h2_examine_begin(t, granted);
        struct verdict v = verdict_request(worker_snapshot(s->client.worker), &s->target.host, s->target.port, method,
                                           str_of(t->path));
        if (examine_was_missed(method, str_of(t->path), granted, v))
                v = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_FORM, .rule = v.rule };
        return v;
}

bool h2_request_judge(struct h2_stream *t, struct str method) {
        struct h2_session *s = t->session;
        struct worker *w = s->client.worker;
        struct verdict v = gate_judge(w, &s->target, true);
        if (verdict_is_agreed(&v, s->approved)) {
                v.decision = DECISION_ALLOW;
                t->asked = s->approved;
        }
        if (v.decision == DECISION_ALLOW && v.needs_request) {
                v = judge_visible(t, method, v);
                if (v.decision == DECISION_ALLOW && t->override) {
                        v.decision = DECISION_DENY;
                        v.reason = t->override->reason;
                        t->why = OVERRIDE_WHY;
                }
        }
        t->verdict = v;
        t->generation = w->policy->generation;
        if (s->spoilt != REASON_NONE) {
                t->verdict.decision = DECISION_DENY;
                t->verdict.reason = s->spoilt;
                t->why = s->why;
        }
        if (t->verdict.decision == DECISION_ALLOW)
                return true;
        t->verdict.decision = DECISION_DENY;
        h2_refuse(t);
        return false;
}

bool h2_request_can_leave(struct h2_stream *t) {
        struct h2_session *s = t->session;
        if (s->side[H2_ORIGIN].stream && !s->draining)
                return true;
        t->state = H2_ANSWERED;
        t->verdict.reason = REASON_UPSTREAM;
        h2_stream_reset_client(t, NGHTTP2_REFUSED_STREAM); /* it was not sent: a new connection will do */
        return false;
}

static void send_on(struct h2_stream *t, const struct h2_fields *f, const struct request *r) {
        struct h2_session *s = t->session;
        struct h2_nvs head = { 0 };
        h2_nvs_add(&head, STR(":method"), r->method, false);
        h2_nvs_add(&head, STR(":scheme"), r->scheme, false);
        h2_nvs_add(&head, STR(":authority"), str_of(s->authority), false);
        h2_nvs_add(&head, STR(":path"), r->path, false);
        h2_nvs_add_fields(&head, f);
        int e = h2_stream_send(t, &head);
        if (e < 0)
                h2_stream_fail(t, e == -EDQUOT || e == -ENOMEM ? REASON_LIMIT : REASON_UPSTREAM, e == -EDQUOT ? 0 : e);
}

void h2_request_send(struct h2_stream *t) {
        const struct h2_fields *f = t->session->side[H2_CLIENT].fields;
        struct request r = { h2_fields_find(f, ":method"), h2_fields_find(f, ":scheme"), h2_fields_find(f, ":path") };

        if (h2_request_judge(t, r.method) && h2_request_can_leave(t) && !h2_swap_take(t))
                send_on(t, f, &r);
}

void h2_request_take(struct h2_stream *t, bool ended) {
        struct h2_session *s = t->session;
        const struct h2_fields *f = s->side[H2_CLIENT].fields;
        struct request r = { h2_fields_find(f, ":method"), h2_fields_find(f, ":scheme"), h2_fields_find(f, ":path") };
        t->up.ended = ended;
        for (size_t i = 0; i < f->n && !t->override; i++)
                t->override = override_find(h2_field_name(f, i));
        if (remember(t, &r) < 0) {
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Out of memory");
                return;
        }
        if (is_sound(t, f, &r) && h2_request_judge(t, r.method) && h2_request_can_leave(t) && !h2_examine_takes(t) &&
            !h2_swap_take(t))
                send_on(t, f, &r);
}
