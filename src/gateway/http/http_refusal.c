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

void http_refusal_record(struct http_session *s) {
        judged_remove(&s->judged);
        if (s->connect)
                tunnel_report_refused(&s->client, &s->call, s->status);
        else
                http_session_record(s, !s->cut && (s->begun || !gate_was_refused(&s->call.verdict)));
}

/* Recorded whatever becomes of the answer. */
static void answer_as(struct http_session *s, unsigned status, enum reason reason, const char *type, struct str text) {
        if (!s->request.done)
                s->keep_client = false;
        s->status = (uint16_t)status;
        http_refusal_record(s);
        if (s->down.head_at > 0 && s->down.head_at < s->down.head.n) {
                http_session_end(s, true); /* an interim response is half out: nothing can follow it */
                return;
        }
        buf_done(&s->down.head); /* interim responses that did not go out yet do not matter any more */
        s->down.head = BUF(REFUSAL_TEXT_MAX * 2 + text.n);
        s->down.head_at = 0;
        const char *connection = http_session_connection(s);
        int r = buf_printf(&s->down.head,
                           "HTTP/1.1 %u %s\r\n"
                           "Content-Type: %s\r\n"
                           "Content-Length: %zu\r\n"
                           "Cache-Control: no-store\r\n"
                           "x-bailey-reason: %s\r\n"
                           "%s%s%s\r\n",
                           status, status_text(status), type, text.n, reason_code(reason),
                           connection ? "Connection: " : "", connection ? connection : "", connection ? "\r\n" : "");
        if (r == 0 && !s->head_method)
                r = buf_append(&s->down.head, text);
        if (r < 0) {
                http_session_end(s, true);
                return;
        }
        http_session_enter(s, HTTP_ANSWER);
        http_session_limit(s, http_settings(s)->header_ns);
}

/* With a line end behind the text. */
static void answer(struct http_session *s, unsigned status, enum reason reason, struct buf *text) {
        text->max++;
        if (buf_add_char(text, '\n') < 0)
                buf_clear(text);
        answer_as(s, status, reason, "text/plain; charset=utf-8", buf_str(text));
}

void http_refuse_as(struct http_session *s, unsigned status, const char *type, struct str content) {
        answer_as(s, status, (enum reason)s->call.verdict.reason, type, content);
}

void http_refuse(struct http_session *s) {
        const struct verdict *v = &s->call.verdict;
        if (http_examine_refuse(s))
                return;
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);
        if (refusal_text(&text, worker_snapshot(s->client.worker), &s->call.target, v, s->call.error, s->call.why) < 0)
                buf_clear(&text);
        unsigned status = v->reason == REASON_METHOD ? 405 : refusal_status(v, s->call.error);
        answer(s, status, v->reason, &text);
}

void http_refuse_bytes(struct http_session *s, unsigned status, enum reason reason, const char *what) {
        cleanup(buf_done) struct buf text = BUF(REFUSAL_TEXT_MAX);
        s->call.verdict.decision = DECISION_DENY;
        s->call.verdict.reason = (uint8_t)reason;
        if (buf_printf(&text,
                       "Bailey did not forward this request: %s.\n"
                       "Sending the same bytes again will not help; the request itself must change.",
                       what) < 0)
                buf_clear(&text);
        answer(s, status, reason, &text);
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
        answer(s, 403, reason, &text);
}
