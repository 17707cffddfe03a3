/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be seen of a stream's body before its request may leave (gateway/examine.h). The request's fields and what
 * came of its body are kept; when enough was seen, both go the way of any other request. The windows that the kept
 * bytes came through were opened at once, so that they count against the session's limit for kept bodies instead.
 */
#include "gateway/h2/h2_examine.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "gateway/h2/h2_swap.h"

#include <errno.h>
#include <stdlib.h>

static struct examine_head head_of(const struct h2_stream *stream, const struct h2_fields *fields) {
        struct examine_head head = { .method = h2_fields_find(fields, ":method"),
                                     .target = h2_fields_find(fields, ":path"),
                                     .has_body = !stream->up.ended };

        for (size_t i = 0; i < fields->n; i++) {
                if (str_is(h2_field_name(fields, i), "content-type")) {
                        head.content_type = h2_field_value(fields, i);
                        head.content_types++;
                } else if (str_is(h2_field_name(fields, i), "content-encoding")) {
                        head.coding = (uint8_t)coding_add((enum coding)head.coding, h2_field_value(fields, i));
                }
        }

        return head;
}

static struct verdict no_memory(void) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_LIMIT, .rule = RULE_NONE };
}

struct verdict h2_examine_begin(struct h2_stream *stream, struct verdict granted) {
        struct h2_session *session = stream->session;
        const struct examine_head head = head_of(stream, session->side[H2_CLIENT].fields);
        struct examine *examine = NULL;
        struct verdict verdict;

        if (examine_request(worker_snapshot(session->client.worker), &session->target, &head, granted, &examine,
                            &verdict) < 0)
                return no_memory();
        if (!examine)
                return verdict;

        stream->examine = alloc_zeroed(sizeof *stream->examine);
        if (!stream->examine) {
                examine_free(examine);
                return no_memory();
        }

        *stream->examine = (struct h2_examine){ .examine = examine, .stream = stream, .raw = BUF(EXAMINE_MAX) };
        stream->why = examine_why(examine);

        return verdict;
}

struct verdict h2_examine_again(struct h2_stream *stream, struct verdict granted) {
        struct verdict verdict =
            examine_verdict(stream->examine->examine, worker_snapshot(stream->session->client.worker), granted);

        stream->why = examine_why(stream->examine->examine);
        return verdict;
}

void h2_examine_withdraw(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;

        if (!examine || !examine->holding)
                return;

        examine->holding = false;
        gate_cancel(&examine->hold);
}

void h2_examine_free(struct h2_stream *stream) {
        h2_examine_withdraw(stream);

        struct h2_examine *examine = take_ptr(&stream->examine);
        if (!examine)
                return;

        stream->session->kept -= examine->reserved;
        h2_fields_free(examine->fields);
        examine_free(examine->examine);
        buf_done(&examine->raw);
        free(examine);
}

/* --- on its way --- */

/* What was kept of the body is the first that leaves. So it must be in its place before anything more is received:
 * what comes behind it was not judged, and would be read as the request if it arrived first. */
static int give_back(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;
        int r;

        if (examine->raw.n == 0)
                return 0;

        stream->up.bytes.max += examine->raw.n;
        r = h2_flow_add(&stream->up, buf_str(&examine->raw));
        if (r < 0)
                return r;

        stream->up.gift = examine->raw.n;
        buf_clear(&examine->raw);

        return 0;
}

/* With its fields in the place where they would be if they had come just now. */
static void send_kept(struct h2_stream *stream) {
        struct h2_side *side = &stream->session->side[H2_CLIENT];
        struct h2_fields *now = side->fields;

        side->fields = take_ptr(&stream->examine->fields);
        stream->state = H2_HEAD;
        if (give_back(stream) < 0)
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Out of memory");
        else
                h2_request_send(stream);

        h2_fields_free(side->fields);
        side->fields = now;
        if (stream->state == H2_KEEPING || (stream->up.worked && stream->state != H2_ANSWERED)) {
                stream->cut = true; /* on record as refused: it is taken back before it was written */
                h2_refuse_bytes(stream, 501, REASON_CREDENTIAL,
                                "A request that is judged by its body cannot be signed");
        }
}

static void examine_refuse(struct h2_stream *stream, struct verdict verdict) {
        stream->verdict = verdict;
        stream->why = examine_why(stream->examine->examine);
        h2_refuse(stream);
}

/* A person has answered, for a request that still waits: one that was answered meanwhile is over (h2_swap.c). */
static void on_agreed(struct gate_call *call) {
        struct h2_examine *examine = link_owner(call, struct h2_examine, hold);
        struct h2_stream *stream = examine->stream;
        struct h2_session *session = stream->session;

        examine->holding = false;
        if (stream->state != H2_WAITING)
                return;

        if (call->verdict.decision == DECISION_ALLOW) {
                examine->examine->asked = true;
                send_kept(stream);
        } else {
                stream->verdict = call->verdict;
                stream->error = call->error;
                stream->why = NULL;
                h2_refuse(stream);
        }

        loop_soon(session->client.worker->loop, &session->later);
}

static void begin_asking(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;
        struct h2_session *session = stream->session;
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        if (give_back(stream) < 0) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Out of memory");
                return;
        }

        (void)examine_question(examine->examine, &text);
        examine->hold = (struct gate_call){ .worker = session->client.worker,
                                            .target = session->target,
                                            .via = session->client.via,
                                            .request_visible = true,
                                            .done = on_agreed };
        gate_set_question(&examine->hold, buf_str(&text), &stream->verdict);
        examine->holding = true;
        stream->state = H2_WAITING;
        gate_open(&examine->hold);
}

/* --- the body --- */

static void examine_settle(struct h2_stream *stream, int found) {
        struct h2_session *session = stream->session;
        struct examine *examine = stream->examine->examine;

        if (found < 0) {
                examine_refuse(stream, found == -ENOMEM ? no_memory() : examine_malformed(examine));
                return;
        }

        if (!h2_request_judge(stream, h2_fields_find(stream->examine->fields, ":method")) ||
            !h2_request_can_leave(stream))
                return;

        if (examine->ask && !examine->asked)
                begin_asking(stream);
        else
                send_kept(stream);

        loop_soon(session->client.worker->loop, &session->later);
}

static bool examine_reserve(struct h2_stream *stream, size_t n) {
        struct h2_session *session = stream->session;

        if (n > H2_KEPT_MAX - session->kept)
                return false;
        session->kept += n;
        stream->examine->reserved += n;
        return true;
}

void h2_examine_add(struct h2_stream *stream, struct str bytes) {
        struct h2_examine *examine = stream->examine;

        if (stream->state == H2_DRAINING) {
                examine->drained += bytes.n;
                if (examine->drained > H2_DRAIN_MAX)
                        h2_examine_ended(stream);
                return;
        }

        if (!examine_reserve(stream, bytes.n) || buf_append(&examine->raw, bytes) < 0) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Too much is waiting to be judged");
                return;
        }

        int found = examine_feed(examine->examine, bytes, false);
        if (found != 0)
                examine_settle(stream, found);
}

static void answer_push(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;
        cleanup(buf_done) struct buf body = BUF(EXAMINE_ANSWER_MAX);

        examine->refused = true;
        if (examine_answer(examine->examine, worker_snapshot(stream->session->client.worker), &stream->verdict, &body) <
            0)
                h2_refuse(stream);
        else
                h2_refuse_as(stream, 200, EXAMINE_ANSWER_TYPE, buf_str(&body));
}

void h2_examine_ended(struct h2_stream *stream) {
        if (stream->state == H2_DRAINING)
                answer_push(stream);
        else
                examine_settle(stream, examine_feed(stream->examine->examine, STR(""), true));
}

bool h2_examine_takes(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;
        struct h2_side *side = &stream->session->side[H2_CLIENT];

        bool asks = examine && examine->examine->ask && !examine->examine->asked;
        if (!examine || (!examine_is_open(examine->examine) && !asks))
                return false;

        struct h2_fields *next = h2_fields_new(side->fields->max);
        if (!next) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Out of memory");
                return true;
        }

        examine->fields = side->fields;
        side->fields = next;

        if (!examine_is_open(examine->examine)) {
                begin_asking(stream);
                return true;
        }

        stream->state = H2_EXAMINING;
        if (stream->up.ended)
                examine_settle(stream, examine_feed(examine->examine, STR(""), true));

        return true;
}

bool h2_examine_refuse(struct h2_stream *stream) {
        struct h2_examine *examine = stream->examine;
        cleanup(buf_done) struct buf probe = BUF(EXAMINE_ANSWER_MAX);

        if (!examine || examine->refused || stream->begun || !stream->client_id)
                return false;
        if (examine_answer(examine->examine, worker_snapshot(stream->session->client.worker), &stream->verdict,
                           &probe) < 0)
                return false;

        /* What came while a person was asked would keep the window closed, and the end that we wait for out. */
        h2_flow_drop(&stream->up);
        buf_clear(&examine->raw);
        h2_examine_withdraw(stream);
        stream->state = H2_DRAINING;
        if (stream->up.ended)
                answer_push(stream);

        return true;
}
