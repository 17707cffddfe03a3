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

static void answer_as(struct h2_stream *stream, unsigned status, enum reason reason, const char *type,
                      struct str text) {
        char number[8];
        struct h2_nvs nvs = { 0 };
        struct refusal_head head;

        stream->status = (uint16_t)status;
        h2_nvs_add(&nvs, STR(":status"), str_n(number, (size_t)snprintf(number, sizeof number, "%u", status)), false);
        refusal_head(&head, reason, type, text.n);
        for (size_t i = 0; i < REFUSAL_HEADERS; i++)
                h2_nvs_add(&nvs, head.at[i].lower, head.at[i].value, false);

        h2_stream_answer(stream, &nvs, text);
}

static void refusal_answer(struct h2_stream *stream, struct refusal refusal) {
        answer_as(stream, refusal.status, refusal.reason, refusal.type, buf_str(&refusal.text));
        refusal_done(&refusal);
}

static struct refused refused_by(const struct h2_stream *stream) {
        return (struct refused){ .snapshot = worker_snapshot(stream->session->client.worker),
                                 .target = &stream->session->target,
                                 .verdict = &stream->verdict,
                                 .error = stream->error,
                                 .why = stream->why };
}

void h2_refuse_as(struct h2_stream *stream, unsigned status, const char *type, struct str content) {
        answer_as(stream, status, (enum reason)stream->verdict.reason, type, content);
}

void h2_refuse(struct h2_stream *stream) {
        if (h2_examine_refuse(stream))
                return;

        const struct refused refused = refused_by(stream);
        refusal_answer(stream, refusal_of(&refused));
}

void h2_refuse_rest(struct h2_stream *stream) {
        const struct refused refused = refused_by(stream);
        refusal_answer(stream, refusal_of_rest(&refused));
}

void h2_refuse_bytes(struct h2_stream *stream, unsigned status, enum reason reason, const char *what) {
        stream->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
        refusal_answer(stream, refusal_of_bytes(status, reason, what));
}

/* judging */

struct request {
        struct str method, scheme, path;
};

/* Authority and Host name the target, or the status to refuse it with. */
static unsigned settle_authority(const struct h2_session *session, const struct h2_fields *fields,
                                 enum reason *ret_reason) {
        for (size_t i = 0; i < fields->n; i++) {
                struct authority named;

                if (!str_is(h2_field_name(fields, i), ":authority") && !str_is(h2_field_name(fields, i), "host"))
                        continue;

                *ret_reason = REASON_BAD_NAME;
                if (authority_parse(h2_field_value(fields, i), 443, &named, NULL) < 0)
                        return 400;

                *ret_reason = REASON_FRONTING;
                if (!host_equal(&named.host, &session->target.host) || named.port != session->target.port)
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

static bool is_method(struct str method) {
        const char *end = method.p + method.n;

        return method.n > 0 && method.n <= HTTP1_METHOD_MAX && http1_skip(method.p, end, CHAR_TOKEN) == end;
}

/* For the record, and for a policy that changes while it runs. */
static int request_remember(struct h2_stream *stream, const struct request *request) {
        stream->method = str_dup(str_first(request->method, HTTP1_METHOD_MAX));
        stream->path = str_dup(http1_path_only(request->path));
        if (stream->method && stream->path)
                return 0;

        return -ENOMEM;
}

/* False when it was answered. */
static bool is_sound(struct h2_stream *stream, const struct h2_fields *fields, const struct request *request) {
        enum reason reason = REASON_PROTOCOL;

        if (fields->too_large) {
                h2_refuse_bytes(stream, 431, REASON_PROTOCOL, "Its header is too large");
                return false;
        }

        if (str_is(request->method, "CONNECT")) {
                h2_refuse_bytes(stream, 405, REASON_METHOD,
                                "CONNECT is for proxies, and this connection goes to an origin");
                return false;
        }

        if (str_is(request->method, "TRACE")) {
                h2_refuse_bytes(stream, 405, REASON_METHOD, "TRACE is not supported");
                return false;
        }

        if (!is_method(request->method) || !str_is(request->scheme, "https") ||
            !is_path(request->method, request->path)) {
                h2_refuse_bytes(stream, 400, REASON_PROTOCOL, "Its method, scheme or path is not valid here");
                return false;
        }

        unsigned status = settle_authority(stream->session, fields, &reason);
        if (status)
                h2_refuse_bytes(stream, status, reason,
                                reason == REASON_FRONTING ? "Its authority is another than this connection is for"
                                                          : "Its authority is not valid");

        return status == 0;
}

/* When its head has just come, what else must be seen of it is found out. */
static struct verdict judge_visible(struct h2_stream *stream, struct str method, struct verdict granted) {
        struct h2_session *session = stream->session;

        if (stream->examine)
                return h2_examine_again(stream, granted);
        if (stream->state == H2_HEAD)
                return h2_examine_begin(stream, granted);

        struct verdict verdict = verdict_request(worker_snapshot(session->client.worker), &session->target.host,
                                                 session->target.port, method, str_of(stream->path));
        if (examine_was_missed(method, str_of(stream->path), granted, verdict))
                verdict =
                    (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_FORM, .rule = verdict.rule };

        return verdict;
}

bool h2_request_judge(struct h2_stream *stream, struct str method) {
        struct h2_session *session = stream->session;
        struct worker *worker = session->client.worker;
        struct verdict verdict = gate_judge(worker, &session->target, true);
        if (verdict_is_agreed(&verdict, session->approved)) {
                verdict.decision = DECISION_ALLOW;
                stream->asked = session->approved;
        }

        if (verdict.decision == DECISION_ALLOW && verdict.needs_request) {
                verdict = judge_visible(stream, method, verdict);
                if (verdict.decision == DECISION_ALLOW && stream->override) {
                        verdict.decision = DECISION_DENY;
                        verdict.reason = stream->override->reason;
                        stream->why = OVERRIDE_WHY;
                }
        }

        stream->verdict = verdict;
        stream->generation = worker->policy->generation;

        if (session->spoilt != REASON_NONE) {
                stream->verdict.decision = DECISION_DENY;
                stream->verdict.reason = session->spoilt;
                stream->why = session->why;
        }

        if (stream->verdict.decision == DECISION_ALLOW)
                return true;

        stream->verdict.decision = DECISION_DENY;
        h2_refuse(stream);

        return false;
}

bool h2_request_can_leave(struct h2_stream *stream) {
        struct h2_session *session = stream->session;
        if (session->side[H2_ORIGIN].stream && !session->draining)
                return true;
        stream->state = H2_ANSWERED;
        stream->verdict.reason = REASON_UPSTREAM;
        h2_stream_reset_client(stream, NGHTTP2_REFUSED_STREAM); /* it was not sent: a new connection will do */
        return false;
}

static void send_on(struct h2_stream *stream, const struct h2_fields *fields, const struct request *request) {
        struct h2_session *session = stream->session;
        struct h2_nvs head = { 0 };

        h2_nvs_add(&head, STR(":method"), request->method, false);
        h2_nvs_add(&head, STR(":scheme"), request->scheme, false);
        h2_nvs_add(&head, STR(":authority"), str_of(session->authority), false);
        h2_nvs_add(&head, STR(":path"), request->path, false);
        h2_nvs_add_fields(&head, fields);

        int e = h2_stream_send(stream, &head);
        if (e == -EDQUOT)
                h2_stream_fail(stream, REASON_LIMIT, 0);
        else if (e < 0)
                h2_stream_fail(stream, e == -ENOMEM ? REASON_LIMIT : REASON_UPSTREAM, e);
}

void h2_request_send(struct h2_stream *stream) {
        const struct h2_fields *fields = stream->session->side[H2_CLIENT].fields;
        struct request request = { h2_fields_find(fields, ":method"), h2_fields_find(fields, ":scheme"),
                                   h2_fields_find(fields, ":path") };

        if (h2_request_judge(stream, request.method) && h2_request_can_leave(stream) && !h2_swap_take(stream))
                send_on(stream, fields, &request);
}

/* As far as its head tells: h2_stream_take_data() counts. */
static bool body_fits(struct h2_stream *stream, const struct h2_fields *fields) {
        uint64_t limit = h2_settings(stream->session)->body_bytes, length;

        if (limit == 0 || !str_to_u64(h2_fields_find(fields, "content-length"), UINT64_MAX, &length) || length <= limit)
                return true;

        stream->why = REFUSAL_LARGE_BODY;
        h2_refuse_bytes(stream, 413, REASON_LIMIT, REFUSAL_LARGE_BODY);
        return false;
}

void h2_request_take(struct h2_stream *stream, bool ended) {
        struct h2_session *session = stream->session;
        const struct h2_fields *fields = session->side[H2_CLIENT].fields;
        struct request request = { h2_fields_find(fields, ":method"), h2_fields_find(fields, ":scheme"),
                                   h2_fields_find(fields, ":path") };

        stream->up.ended = ended;
        for (size_t i = 0; i < fields->n && !stream->override; i++)
                stream->override = override_find(h2_field_name(fields, i));

        if (request_remember(stream, &request) < 0) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Out of memory");
                return;
        }

        if (is_sound(stream, fields, &request) && h2_request_judge(stream, request.method) &&
            body_fits(stream, fields) && h2_request_can_leave(stream) && !h2_examine_takes(stream) &&
            !h2_swap_take(stream))
                send_on(stream, fields, &request);
}
