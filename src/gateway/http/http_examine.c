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

static struct examine_head head_of(const struct http_session *s, const struct http1_request *r) {
        struct examine_head head = { .method = r->method,
                                     .target = http_session_target(s),
                                     .has_body = r->head.body != BODY_NONE };

        for (size_t i = 0; i < r->head.n_headers; i++) {
                const struct http1_header *h = &r->head.headers[i];
                if (str_eq_nocase(h->name, STR("content-type"))) {
                        head.content_type = h->value;
                        head.content_types++;
                } else if (str_eq_nocase(h->name, STR("content-encoding"))) {
                        head.coding = (uint8_t)coding_add((enum coding)head.coding, h->value);
                }
        }
        return head;
}

static struct verdict no_memory(void) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_LIMIT, .rule = RULE_NONE };
}

struct verdict http_examine_begin(struct http_session *s, const struct http1_request *r, struct verdict granted) {
        const struct examine_head head = head_of(s, r);
        struct examine *e = NULL;
        struct verdict v;

        if (examine_request(worker_snapshot(s->client.worker), &s->call.target, &head, granted, &e, &v) < 0)
                return no_memory();
        if (!e)
                return v;
        s->examine = alloc_zeroed(sizeof *s->examine);
        if (!s->examine) {
                examine_free(e);
                return no_memory();
        }
        *s->examine = (struct http_examine){
                .examine = e, .session = s, .raw = BUF(RAW_MAX), .expects = r->expect_continue && r->head.minor > 0
        };
        s->call.why = examine_why(e);
        return v;
}

void http_examine_free(struct http_session *s) {
        struct http_examine *k = take_ptr(&s->examine);

        if (!k)
                return;
        if (k->holding)
                gate_cancel(&k->hold);
        examine_free(k->examine);
        buf_done(&k->raw);
        free(k);
}

bool http_examine_is_held(const struct http_session *s) {
        return s->examine && s->examine->holding && gate_is_held(&s->examine->hold);
}

static void refuse(struct http_session *s, struct verdict v) {
        s->call.verdict = v;
        s->call.why = examine_why(s->examine->examine);
        http_refuse(s);
}

/* --- the question --- */

static void on_agreed(struct gate_call *c) {
        struct http_examine *k = link_owner(c, struct http_examine, hold);
        struct http_session *s = k->session;

        k->holding = false;
        http_session_enter(s, HTTP_HEAD);
        if (c->verdict.decision == DECISION_ALLOW) {
                k->examine->asked = true;
                http_request_send(s);
        } else {
                s->call.error = c->error;
                s->call.verdict = c->verdict;
                s->call.why = NULL;
                http_refuse(s);
        }
        http_session_run(s);
}

static bool begin_asking(struct http_session *s) {
        struct http_examine *k = s->examine;
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        (void)examine_question(k->examine, &text);
        k->hold = (struct gate_call){ .worker = s->client.worker,
                                      .target = s->call.target,
                                      .via = s->client.via,
                                      .request_visible = true,
                                      .done = on_agreed };
        gate_set_question(&k->hold, buf_str(&text), &s->call.verdict);
        k->holding = true;
        http_session_enter(s, HTTP_OPENING);
        timer_stop(&s->limit);
        gate_open(&k->hold);
        return false;
}

/* --- the body --- */

/* Enough was seen: its bytes are the client's next again. */
static int give_back(struct http_session *s) {
        int r = stream_unread(s->client.stream, buf_str(&s->examine->raw));

        buf_done(&s->examine->raw);
        s->examine->raw = BUF(RAW_MAX);
        return r;
}

/* What came is whole, or enough of it: judged, then on its way. */
static void settle(struct http_session *s, int found) {
        struct http_examine *k = s->examine;
        struct examine *e = k->examine;

        timer_stop(&s->limit);
        http_session_enter(s, HTTP_HEAD);
        if (found < 0) {
                s->request = k->seen;
                refuse(s, found == -ENOMEM ? no_memory() : examine_malformed(e));
                return;
        }
        struct verdict v = http_request_verdict(s, gate_judge(s->client.worker, &s->call.target, true));
        if (v.decision == DECISION_DENY) {
                refuse(s, v);
                return;
        }
        s->call.verdict = v;
        if (give_back(s) < 0) {
                http_session_end(s, true);
                return;
        }
        http_request_send(s);
}

static int take_body(struct http_session *s, struct str bytes) {
        struct http_examine *k = s->examine;
        struct str left = bytes, span;
        enum http1_result result;
        int found = 0;

        if (buf_append(&k->raw, bytes) < 0)
                return -ENOMEM;
        while (found == 0 && (result = http_body_next(&k->seen, &left, &span)) == HTTP1_OK)
                found = examine_feed(k->examine, span, false);
        if (found != 0)
                return found;
        if (result != HTTP1_MORE)
                return -EPROTO;
        return k->seen.done ? examine_feed(k->examine, STR(""), true) : 0;
}

bool http_examine_step(struct http_session *s) {
        struct http_examine *k = s->examine;
        struct str bytes;
        int r = http_flow_flush(&s->down, http_pool(s), s->client.stream);

        if (r < 0 && r != -EAGAIN) {
                http_session_end(s, true);
                return false;
        }
        r = http_exchange_body_bytes(s, &bytes);
        if (r == -EAGAIN)
                return false;
        if (r < 0) {
                http_session_end(s, true);
                return false;
        }
        r = take_body(s, bytes);
        if (s->in)
                pool_chunk_put(http_pool(s), take_ptr(&s->in)); /* all of it is in `raw` */
        if (r == -EPROTO) {
                s->request = k->seen;
                http_refuse_bytes(s, 400, REASON_PROTOCOL, "Its body is not framed as it must be");
                return s->state != HTTP_GONE;
        }
        if (r == 0)
                return true;
        settle(s, r);
        return s->state != HTTP_GONE;
}

static void begin_reading(struct http_session *s) {
        struct http_examine *k = s->examine;

        k->seen = s->request;
        k->seen.chunked.bare = true;
        k->seen.chunked.trailers = NULL;
        http_session_enter(s, HTTP_EXAMINING);
        http_session_limit(s, http_settings(s)->idle_ns);
        if (k->expects)
                (void)buf_add(&s->down.head, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool http_examine_pass(struct http_session *s) {
        struct http_examine *k = s->examine;
        int found = 0;

        if (!k)
                return true;
        if (examine_is_open(k->examine)) {
                bool kept = s->swap && s->swap->keeps_body;
                if (!s->request.done && !kept) {
                        begin_reading(s);
                        return false;
                }
                k->seen = s->request;
                found = examine_feed(k->examine, kept ? buf_str(&s->swap->body) : STR(""), true);
                settle(s, found);
                return false;
        }
        if (k->examine->ask && !k->examine->asked)
                return begin_asking(s);
        return true;
}

/* --- refusals --- */

static void answer_push(struct http_session *s) {
        cleanup(buf_done) struct buf body = BUF(EXAMINE_ANSWER_MAX);

        s->examine->refused = true;
        if (examine_answer(s->examine->examine, worker_snapshot(s->client.worker), &s->call.verdict, &body) < 0)
                http_refuse(s);
        else
                http_refuse_as(s, 200, EXAMINE_ANSWER_TYPE, buf_str(&body));
}

bool http_examine_drain_step(struct http_session *s) {
        struct http_examine *k = s->examine;
        enum http1_result result = HTTP1_MORE;
        struct str all, span;
        int r = s->request.done ? 0 : http_exchange_body_bytes(s, &all);

        if (r == -EAGAIN)
                return false;
        if (r < 0) {
                http_refusal_record(s);
                http_session_end(s, false);
                return false;
        }
        if (!s->request.done) {
                struct str left = all;
                while ((result = http_body_next(&s->request, &left, &span)) == HTTP1_OK)
                        k->drained += span.n;
                if (http_session_keep(s, all, all.n - left.n) < 0)
                        result = HTTP1_TOO_LARGE;
        }
        if (!s->request.done && result == HTTP1_MORE && k->drained < HTTP_DRAIN_MAX) {
                http_session_limit(s, http_settings(s)->idle_ns);
                return true;
        }
        answer_push(s);
        return s->state != HTTP_GONE;
}

bool http_examine_refuse(struct http_session *s) {
        struct http_examine *k = s->examine;
        cleanup(buf_done) struct buf probe = BUF(EXAMINE_ANSWER_MAX);

        if (!k || k->refused || s->begun)
                return false;
        if (examine_answer(k->examine, worker_snapshot(s->client.worker), &s->call.verdict, &probe) < 0)
                return false;
        if (give_back(s) < 0) {
                http_session_end(s, true);
                return true;
        }
        http_session_enter(s, HTTP_DRAINING);
        http_session_limit(s, http_settings(s)->idle_ns);
        return true;
}
