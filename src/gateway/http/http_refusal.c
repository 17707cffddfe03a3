/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own answers (gateway/refusal.h) in HTTP/1. A refused request whose body is still to come ends the connection,
 * since where the next one would begin is not known; all others leave it open.
 */
#include "gateway/http/http_examine.h"
#include "gateway/refusal.h"

#include "base/cleanup.h"

static const char *status_text(unsigned status) {
        switch (status) {
        case 200:
                return "OK";
        case 400:
                return "Bad Request";
        case 403:
                return "Forbidden";
        case 404:
                return "Not Found";
        case 405:
                return "Method Not Allowed";
        case 407:
                return "Proxy Authentication Required";
        case 408:
                return "Request Timeout";
        case 413:
                return "Content Too Large";
        case 421:
                return "Misdirected Request";
        case 429:
                return "Too Many Requests";
        case 431:
                return "Request Header Fields Too Large";
        case 503:
                return "Service Unavailable";
        case 504:
                return "Gateway Timeout";
        default:
                return "Bad Gateway";
        }
}

void http_refusal_record(struct http_session *session) {
        judged_remove(&session->exchange.judged);
        if (session->exchange.connect)
                gate_report_refused(&session->client, &session->call, session->exchange.status);
        else
                http_exchange_record(session, !session->exchange.cut && (session->exchange.begun ||
                                                                         !gate_was_refused(&session->call.verdict)));
}

static int write_answer(struct http_session *session, unsigned status, enum reason reason, const char *type,
                        struct str text) {
        const char *connection = http_session_connection(session);
        struct buf *out = &session->exchange.down.head;
        struct refusal_head head;
        int r = buf_printf(out, "HTTP/1.1 %u %s\r\n", status, status_text(status));

        refusal_head(&head, reason, type, text.n);
        for (size_t i = 0; r == 0 && i < REFUSAL_HEADERS; i++)
                r = buf_printf(out, "%.*s: %.*s\r\n", STR_FMT(head.at[i].name), STR_FMT(head.at[i].value));

        if (r == 0 && status == 407)
                r = buf_add(out, "Proxy-Authenticate: Basic realm=\"" PROXY_USER "\"\r\n");
        if (r == 0 && connection)
                r = buf_printf(out, "Connection: %s\r\n", connection);
        if (r == 0)
                r = buf_add(out, "\r\n");
        if (r == 0 && !session->exchange.head_method)
                r = buf_append(out, text);

        return r;
}

/* Recorded whatever becomes of the answer. */
static void answer_as(struct http_session *session, unsigned status, enum reason reason, const char *type,
                      struct str text) {
        if (!session->exchange.request.done)
                session->exchange.keep_client = false;

        session->exchange.status = (uint16_t)status;
        http_refusal_record(session);

        if (session->exchange.down.head_at > 0 && session->exchange.down.head_at < session->exchange.down.head.n) {
                http_session_end(session, true); /* an interim response is half out: nothing can follow it */
                return;
        }

        buf_done(&session->exchange.down.head); /* interim responses that did not go out yet do not matter any more */
        session->exchange.down.head = BUF(REFUSAL_TEXT_MAX * 2 + text.n);
        session->exchange.down.head_at = 0;

        int r = write_answer(session, status, reason, type, text);
        if (r < 0) {
                http_session_end(session, true);
                return;
        }

        http_session_enter(session, HTTP_ANSWER);
        http_session_limit(session, http_settings(session)->header_ns);
}

static void refusal_answer(struct http_session *session, struct refusal refusal) {
        answer_as(session, refusal.status, refusal.reason, refusal.type, buf_str(&refusal.text));
        refusal_done(&refusal);
}

static struct refused refused_by(const struct http_session *session) {
        return (struct refused){ .snapshot = worker_snapshot(session->client.worker),
                                 .target = &session->call.target,
                                 .verdict = &session->call.verdict,
                                 .error = session->call.error,
                                 .why = session->call.why };
}

void http_refuse_as(struct http_session *session, unsigned status, const char *type, struct str content) {
        answer_as(session, status, (enum reason)session->call.verdict.reason, type, content);
}

void http_refuse(struct http_session *session) {
        if (http_examine_refuse(session))
                return;

        const struct refused refused = refused_by(session);
        refusal_answer(session, refusal_of(&refused));
}

void http_refuse_for(struct http_session *session, enum reason reason, const char *why) {
        refusal_decide(&session->call.verdict, reason);
        session->call.why = why;
        http_refuse(session);
}

void http_refuse_bytes(struct http_session *session, unsigned status, enum reason reason, const char *what) {
        refusal_decide(&session->call.verdict, reason);
        refusal_answer(session, refusal_of_bytes(status, reason, what));
}

void http_refuse_rest(struct http_session *session, enum reason reason, const char *why) {
        stream_abort(take_ptr(&session->exchange.upstream));
        refusal_decide(&session->call.verdict, reason);
        session->call.why = why;
        session->exchange.cut = true;
        session->exchange.keep_client = false;

        if (session->exchange.head_sent) { /* an answer is under way: only an end can be told */
                http_refusal_record(session);
                http_session_end(session, true);
                return;
        }

        const struct refused refused = refused_by(session);
        refusal_answer(session, refusal_of_rest(&refused));
}

bool http_body_fits(const struct http_session *session) {
        const struct http_body *body = &session->exchange.request;
        uint64_t limit = http_settings(session)->body_bytes;

        if (limit == 0)
                return true;

        return body->kind == BODY_CHUNKED ? body->chunked.announced <= limit
                                          : body->kind != BODY_LENGTH || body->left <= limit;
}

void http_refuse_large(struct http_session *session) {
        const struct http_flow *up = &session->exchange.up;

        if (up->begun || up->head_at > 0) {
                http_refuse_rest(session, REASON_LIMIT, REFUSAL_LARGE_BODY);
                return;
        }

        stream_abort(take_ptr(&session->exchange.upstream));
        session->call.why = REFUSAL_LARGE_BODY;
        session->exchange.cut = true;
        session->exchange.keep_client = false; /* what was read of its body is no next request */
        http_refuse_bytes(session, 413, REASON_LIMIT, REFUSAL_LARGE_BODY);
}
