/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own answers. Each has a short text for people, whose second line is meant for an agent, and x-bailey-reason for
 * programs. A refused request whose body is still to come ends the connection, since where the next one would begin is
 * not known; all others leave it open.
 */
#include "gateway/http/http_examine.h"
#include "gateway/refusal.h"
#include "gateway/tunnel.h"

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
        case 408:
                return "Request Timeout";
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
        judged_remove(&session->judged);
        if (session->connect)
                tunnel_report_refused(&session->client, &session->call, session->status);
        else
                http_session_record(session,
                                    !session->cut && (session->begun || !gate_was_refused(&session->call.verdict)));
}

/* Recorded whatever becomes of the answer. */
static void answer_as(struct http_session *session, unsigned status, enum reason reason, const char *type,
                      struct str text) {
        if (!session->request.done)
                session->keep_client = false;

        session->status = (uint16_t)status;
        http_refusal_record(session);

        if (session->down.head_at > 0 && session->down.head_at < session->down.head.n) {
                http_session_end(session, true); /* an interim response is half out: nothing can follow it */
                return;
        }

        buf_done(&session->down.head); /* interim responses that did not go out yet do not matter any more */
        session->down.head = BUF(REFUSAL_TEXT_MAX * 2 + text.n);
        session->down.head_at = 0;

        const char *connection = http_session_connection(session);
        int r = buf_printf(&session->down.head,
                           "HTTP/1.1 %u %s\r\n"
                           "Content-Type: %s\r\n"
                           "Content-Length: %zu\r\n"
                           "Cache-Control: no-store\r\n"
                           "x-bailey-reason: %s\r\n"
                           "%s%s%s\r\n",
                           status, status_text(status), type, text.n, reason_code(reason),
                           connection ? "Connection: " : "", connection ? connection : "", connection ? "\r\n" : "");
        if (r == 0 && !session->head_method)
                r = buf_append(&session->down.head, text);

        if (r < 0) {
                http_session_end(session, true);
                return;
        }

        http_session_enter(session, HTTP_ANSWER);
        http_session_limit(session, http_settings(session)->header_ns);
}

/* With a line end behind the text. */
static void refusal_answer(struct http_session *session, unsigned status, enum reason reason, struct buf *text) {
        text->max++;
        if (buf_add_char(text, '\n') < 0)
                buf_clear(text);
        answer_as(session, status, reason, "text/plain; charset=utf-8", buf_str(text));
}

void http_refuse_as(struct http_session *session, unsigned status, const char *type, struct str content) {
        answer_as(session, status, (enum reason)session->call.verdict.reason, type, content);
}

void http_refuse(struct http_session *session) {
        const struct verdict *verdict = &session->call.verdict;

        if (http_examine_refuse(session))
                return;

        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);
        if (refusal_text(&text, worker_snapshot(session->client.worker), &session->call.target, verdict,
                         session->call.error, session->call.why) < 0)
                buf_clear(&text);

        unsigned status = verdict->reason == REASON_METHOD ? 405 : refusal_status(verdict, session->call.error);
        refusal_answer(session, status, verdict->reason, &text);
}

void http_refuse_bytes(struct http_session *session, unsigned status, enum reason reason, const char *what) {
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);

        session->call.verdict.decision = DECISION_DENY;
        session->call.verdict.reason = (uint8_t)reason;

        if (buf_printf(&text,
                       "Bailey did not forward this request: %s.\n"
                       "Sending the same bytes again will not help; the request itself must change.",
                       what) < 0)
                buf_clear(&text);

        refusal_answer(session, status, reason, &text);
}

void http_refuse_rest(struct http_session *s, enum reason reason, const char *why) {
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);

        stream_abort(take_ptr(&s->upstream));
        s->call.verdict.decision = DECISION_DENY;
        s->call.verdict.reason = (uint8_t)reason;
        s->call.why = why;
        s->cut = true;
        s->keep_client = false;

        if (s->head_sent) { /* an answer is under way: only an end can be told */
                http_refusal_record(s);
                http_session_end(s, true);
                return;
        }

        if (refusal_rest_text(&text, &s->call.target, why) < 0)
                buf_clear(&text);

        refusal_answer(s, 403, reason, &text);
}
