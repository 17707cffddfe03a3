/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be seen of a request's body before the request may leave (gateway/examine.h). The bytes are read as they
 * come, framing included, and given back to the client's stream when enough was seen: what sends the request begins at
 * its first byte and knows nothing of it. Meanwhile no connection to the origin is used.
 *
 * A refused push is answered as a server would answer it. Git reads that answer only when all of the pack has left, so
 * that the rest of the body is thrown away first.
 */
#include "gateway/http/http_examine.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "gateway/http/http_swap.h"

#include <errno.h>
#include <stdlib.h>

/* Framing of tiny chunks adds up; more than this is no request of git's. */
#define RAW_MAX ((size_t)8 << 20)

static struct examine_head head_of(const struct http_session *session, const struct http1_request *request) {
        struct examine_head head = { .method = request->method,
                                     .target = http_exchange_target(session),
                                     .has_body = request->head.body != BODY_NONE };

        for (size_t i = 0; i < request->head.n_headers; i++) {
                const struct http1_header *header = &request->head.headers[i];
                if (header->hop) /* named by Connection: it does not leave, so that the origin will not go by it */
                        continue;
                if (str_eq_nocase(header->name, STR("content-type"))) {
                        head.content_type = header->value;
                        head.content_types++;
                } else if (str_eq_nocase(header->name, STR("content-encoding"))) {
                        head.coding = (uint8_t)coding_add((enum coding)head.coding, header->value);
                }
        }

        return head;
}

static struct verdict no_memory(void) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_LIMIT, .rule = RULE_NONE };
}

struct verdict http_examine_begin(struct http_session *session, const struct http1_request *request,
                                  struct verdict granted) {
        const struct examine_head head = head_of(session, request);
        struct examine *examine = NULL;
        struct verdict verdict;

        if (examine_request(worker_snapshot(session->client.worker), &session->call.target, &head, granted, &examine,
                            &verdict) < 0)
                return no_memory();
        if (!examine)
                return verdict;

        session->exchange.examine = alloc_zeroed(sizeof *session->exchange.examine);
        if (!session->exchange.examine) {
                examine_free(examine);
                return no_memory();
        }

        *session->exchange.examine =
            (struct http_examine){ .examine = examine,
                                   .session = session,
                                   .raw = BUF(RAW_MAX),
                                   .expects = request->expect_continue && request->head.minor > 0 };
        session->call.why = examine_why(examine);

        return verdict;
}

static void refuse_examined(struct http_session *session, struct verdict verdict) {
        session->call.verdict = verdict;
        session->call.why = examine_why(session->exchange.examine->examine);
        http_refuse(session);
}

/* --- the question --- */

static void on_agreed(struct gate_call *call) {
        struct http_examine *examine = link_owner(call, struct http_examine, hold);
        struct http_session *session = examine->session;

        examine->holding = false;
        http_session_enter(session, HTTP_JUDGED);

        if (call->verdict.decision == DECISION_ALLOW) {
                examine->examine->asked = true;
                http_request_send(session);
        } else {
                session->call.error = call->error;
                session->call.verdict = call->verdict;
                session->call.why = NULL;
                http_refuse(session);
        }

        if (session->state != HTTP_GONE)
                session->resume(session, 0);
}

static bool begin_asking(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        (void)examine_question(examine->examine, &text);
        examine->hold = (struct gate_call){ .worker = session->client.worker,
                                            .target = session->call.target,
                                            .via = session->client.via,
                                            .request_visible = true,
                                            .done = on_agreed };
        gate_set_question(&examine->hold, buf_str(&text), &session->call.verdict);
        examine->holding = true;
        http_session_enter(session, HTTP_ASKING);
        timer_stop(&session->limit);
        gate_open(&examine->hold);

        return false;
}

/* --- the body --- */

/* Enough was seen: its bytes are the client's next again. */
static int give_back(struct http_session *session) {
        int r = stream_unread(session->client.stream, buf_str(&session->exchange.examine->raw));

        buf_done(&session->exchange.examine->raw);
        session->exchange.examine->raw = BUF(RAW_MAX);
        return r;
}

/* What came is whole, or enough of it: judged, then on its way. */
static void http_examine_settle(struct http_session *session, int found) {
        struct http_examine *examine = session->exchange.examine;
        struct examine *e = examine->examine;

        timer_stop(&session->limit);
        http_session_enter(session, HTTP_JUDGED);

        if (found < 0) {
                session->exchange.request = examine->seen;
                if (examine->behind)
                        session->exchange.keep_client = false; /* the next request was read with this one's body */
                refuse_examined(session, found == -ENOMEM ? no_memory() : examine_malformed(e));
                return;
        }

        struct verdict verdict =
            http_request_verdict(session, gate_judge(session->client.worker, &session->call.target, true));
        if (verdict.decision == DECISION_DENY) {
                refuse_examined(session, verdict);
                return;
        }

        session->call.verdict = verdict;
        if (give_back(session) < 0) {
                http_session_end(session, true);
                return;
        }

        http_request_send(session);
}

static int take_body(struct http_session *session, struct str bytes) {
        struct http_examine *examine = session->exchange.examine;
        struct str left = bytes, span;
        enum http1_result result;
        int found = 0;

        if (buf_append(&examine->raw, bytes) < 0)
                return -ENOMEM;

        while (found == 0 && (result = http_body_next(&examine->seen, &left, &span)) == HTTP1_OK)
                found = examine_feed(examine->examine, span, false);

        examine->behind = left.n > 0;
        if (found != 0)
                return found;
        if (result != HTTP1_MORE)
                return -EPROTO;

        if (examine->seen.done)
                return examine_feed(examine->examine, STR(""), true);

        return 0;
}

bool http_examine_step(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;
        struct str bytes;
        int r = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);

        if (r < 0 && r != -EAGAIN) {
                http_session_end(session, true);
                return false;
        }

        r = http_session_body_bytes(session, &bytes);
        if (r == -EAGAIN)
                return false;

        if (r < 0) {
                http_session_end(session, true);
                return false;
        }

        r = take_body(session, bytes);
        if (session->in)
                pool_chunk_put(http_pool(session), take_ptr(&session->in)); /* all of it is in `raw` */

        if (r == -EPROTO) {
                session->exchange.request = examine->seen;
                http_refuse_bytes(session, 400, REASON_PROTOCOL, "Its body is not framed as it must be");
                return session->state != HTTP_GONE;
        }

        if (r == 0)
                return true;

        http_examine_settle(session, r);
        return session->state != HTTP_GONE;
}

static void begin_reading(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;

        examine->seen = session->exchange.request;
        examine->seen.chunked.bare = true;
        examine->seen.chunked.trailers = NULL;
        http_session_enter(session, HTTP_EXAMINING);
        http_session_limit(session, http_settings(session)->idle_ns);

        if (examine->expects)
                (void)buf_add(&session->exchange.down.head, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool http_examine_pass(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;
        int found = 0;

        if (!examine)
                return true;

        if (examine_is_open(examine->examine)) {
                bool kept = session->exchange.swap && session->exchange.swap->keeps_body;
                if (!session->exchange.request.done && !kept) {
                        begin_reading(session);
                        return false;
                }

                examine->seen = session->exchange.request;
                found = examine_feed(examine->examine, kept ? buf_str(&session->exchange.swap->body) : STR(""), true);
                http_examine_settle(session, found);
                return false;
        }

        if (examine->examine->ask && !examine->examine->asked)
                return begin_asking(session);

        return true;
}

/* --- refusals --- */

static void answer_push(struct http_session *session) {
        cleanup(buf_done) struct buf body = BUF(EXAMINE_ANSWER_MAX);

        session->exchange.examine->refused = true;
        if (examine_answer(session->exchange.examine->examine, worker_snapshot(session->client.worker),
                           &session->call.verdict, &body) < 0)
                http_refuse(session);
        else
                http_refuse_as(session, 200, EXAMINE_ANSWER_TYPE, buf_str(&body));
}

bool http_examine_drain_step(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;
        enum http1_result result = HTTP1_MORE;
        struct str all, span;
        int r = 0;

        if (!session->exchange.request.done)
                r = http_session_body_bytes(session, &all);

        if (r == -EAGAIN)
                return false;

        if (r < 0) {
                http_refusal_record(session);
                http_session_end(session, false);
                return false;
        }

        if (!session->exchange.request.done) {
                struct str left = all;
                while ((result = http_body_next(&session->exchange.request, &left, &span)) == HTTP1_OK)
                        examine->drained += span.n;
                if (http_session_keep(session, all, all.n - left.n) < 0)
                        result = HTTP1_TOO_LARGE;
        }

        if (!session->exchange.request.done && result == HTTP1_MORE && examine->drained < HTTP_DRAIN_MAX) {
                http_session_limit(session, http_settings(session)->idle_ns);
                return true;
        }

        answer_push(session);
        return session->state != HTTP_GONE;
}

bool http_examine_refuse(struct http_session *session) {
        struct http_examine *examine = session->exchange.examine;
        cleanup(buf_done) struct buf probe = BUF(EXAMINE_ANSWER_MAX);

        if (!examine || examine->refused || session->exchange.begun)
                return false;
        if (examine_answer(examine->examine, worker_snapshot(session->client.worker), &session->call.verdict, &probe) <
            0)
                return false;

        if (give_back(session) < 0) {
                http_session_end(session, true);
                return true;
        }

        http_session_enter(session, HTTP_DRAINING);
        http_session_limit(session, http_settings(session)->idle_ns);

        return true;
}
