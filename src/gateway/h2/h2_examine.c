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

static struct examine_head head_of(const struct h2_stream *t, const struct h2_fields *f) {
        struct examine_head head = { .method = h2_fields_find(f, ":method"),
                                     .target = h2_fields_find(f, ":path"),
                                     .has_body = !t->up.ended };

        for (size_t i = 0; i < f->n; i++) {
                if (str_is(h2_field_name(f, i), "content-type")) {
                        head.content_type = h2_field_value(f, i);
                        head.content_types++;
                } else if (str_is(h2_field_name(f, i), "content-encoding")) {
                        head.coding = (uint8_t)coding_add((enum coding)head.coding, h2_field_value(f, i));
                }
        }
        return head;
}

static struct verdict no_memory(void) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_LIMIT, .rule = RULE_NONE };
}

struct verdict h2_examine_begin(struct h2_stream *t, struct verdict granted) {
        struct h2_session *s = t->session;
        const struct examine_head head = head_of(t, s->side[H2_CLIENT].fields);
        struct examine *e = NULL;
        struct verdict v;

        if (examine_request(worker_snapshot(s->client.worker), &s->target, &head, granted, &e, &v) < 0)
                return no_memory();
        if (!e)
                return v;
        t->examine = alloc_zeroed(sizeof *t->examine);
        if (!t->examine) {
                examine_free(e);
                return no_memory();
        }
        *t->examine = (struct h2_examine){ .examine = e, .stream = t, .raw = BUF(EXAMINE_MAX) };
        t->why = examine_why(e);
        return v;
}

struct verdict h2_examine_again(struct h2_stream *t, struct verdict granted) {
        struct verdict v = examine_verdict(t->examine->examine, worker_snapshot(t->session->client.worker), granted);

        t->why = examine_why(t->examine->examine);
        return v;
}

void h2_examine_free(struct h2_stream *t) {
        struct h2_examine *k = take_ptr(&t->examine);

        if (!k)
                return;
        if (k->holding)
                gate_cancel(&k->hold);
        t->session->kept -= k->reserved;
        h2_fields_free(k->fields);
        examine_free(k->examine);
        buf_done(&k->raw);
        free(k);
}

/* --- on its way --- */

/* What was kept of the body is the first that leaves. */
static int give_back(struct h2_stream *t) {
        struct h2_examine *k = t->examine;
        int r;

        t->up.bytes.max += k->raw.n;
        r = h2_flow_add(&t->up, buf_str(&k->raw));
        t->up.gift = r < 0 ? 0 : k->raw.n;
        buf_clear(&k->raw);
        return r;
}

/* With its fields in the place where they would be if they had come just now. */
static void send_kept(struct h2_stream *t) {
        struct h2_side *side = &t->session->side[H2_CLIENT];
        struct h2_fields *now = side->fields;

        side->fields = take_ptr(&t->examine->fields);
        t->state = H2_HEAD;
        if (give_back(t) < 0)
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Out of memory");
        else
                h2_request_send(t);
        h2_fields_free(side->fields);
        side->fields = now;
        if (t->state == H2_KEEPING || (t->up.worked && t->state != H2_ANSWERED))
                h2_refuse_bytes(t, 501, REASON_CREDENTIAL, "A request that is judged by its body cannot be signed");
}

static void refuse(struct h2_stream *t, struct verdict v) {
        t->verdict = v;
        t->why = examine_why(t->examine->examine);
        h2_refuse(t);
}

static void on_agreed(struct gate_call *c) {
        struct h2_examine *k = link_owner(c, struct h2_examine, hold);
        struct h2_stream *t = k->stream;
        struct h2_session *s = t->session;

        k->holding = false;
        if (c->verdict.decision == DECISION_ALLOW) {
                k->examine->asked = true;
                send_kept(t);
        } else {
                t->verdict = c->verdict;
                t->error = c->error;
                t->why = NULL;
                h2_refuse(t);
        }
        loop_soon(s->client.worker->loop, &s->later);
}

static void begin_asking(struct h2_stream *t) {
        struct h2_examine *k = t->examine;
        struct h2_session *s = t->session;
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        (void)examine_question(k->examine, &text);
        k->hold = (struct gate_call){ .worker = s->client.worker,
                                      .target = s->target,
                                      .via = s->client.via,
                                      .request_visible = true,
                                      .done = on_agreed };
        gate_set_question(&k->hold, buf_str(&text), &t->verdict);
        k->holding = true;
        t->state = H2_WAITING;
        gate_open(&k->hold);
}

/* --- the body --- */

static void settle(struct h2_stream *t, int found) {
        struct h2_session *s = t->session;
        struct examine *e = t->examine->examine;

        if (found < 0) {
                refuse(t, found == -ENOMEM ? no_memory() : examine_malformed(e));
                return;
        }
        if (!h2_request_judge(t, h2_fields_find(t->examine->fields, ":method")) || !h2_request_can_leave(t))
                return;
        if (e->ask && !e->asked)
                begin_asking(t);
        else
                send_kept(t);
        loop_soon(s->client.worker->loop, &s->later);
}

static bool reserve(struct h2_stream *t, size_t n) {
        struct h2_session *s = t->session;

        if (n > H2_KEPT_MAX - s->kept)
                return false;
        s->kept += n;
        t->examine->reserved += n;
        return true;
}

void h2_examine_add(struct h2_stream *t, struct str bytes) {
        struct h2_examine *k = t->examine;

        if (t->state == H2_DRAINING) {
                k->drained += bytes.n;
                if (k->drained > H2_DRAIN_MAX)
                        h2_examine_ended(t);
                return;
        }
        if (!reserve(t, bytes.n) || buf_append(&k->raw, bytes) < 0) {
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Too much is waiting to be judged");
                return;
        }
        int found = examine_feed(k->examine, bytes, false);
        if (found != 0)
                settle(t, found);
}

static void answer_push(struct h2_stream *t) {
        struct h2_examine *k = t->examine;
        cleanup(buf_done) struct buf body = BUF(EXAMINE_ANSWER_MAX);

        k->refused = true;
        if (examine_answer(k->examine, worker_snapshot(t->session->client.worker), &t->verdict, &body) < 0)
                h2_refuse(t);
        else
                h2_refuse_as(t, 200, EXAMINE_ANSWER_TYPE, buf_str(&body));
}

void h2_examine_ended(struct h2_stream *t) {
        if (t->state == H2_DRAINING)
                answer_push(t);
        else
                settle(t, examine_feed(t->examine->examine, STR(""), true));
}

bool h2_examine_takes(struct h2_stream *t) {
        struct h2_examine *k = t->examine;
        struct h2_side *side = &t->session->side[H2_CLIENT];

        bool asks = k && k->examine->ask && !k->examine->asked;
        if (!k || (!examine_is_open(k->examine) && !asks))
                return false;
        struct h2_fields *next = h2_fields_new(side->fields->max);
        if (!next) {
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Out of memory");
                return true;
        }
        k->fields = side->fields;
        side->fields = next;
        if (!examine_is_open(k->examine)) {
                begin_asking(t);
                return true;
        }
        t->state = H2_EXAMINING;
        if (t->up.ended)
                settle(t, examine_feed(k->examine, STR(""), true));
        return true;
}

bool h2_examine_refuse(struct h2_stream *t) {
        struct h2_examine *k = t->examine;
        cleanup(buf_done) struct buf probe = BUF(EXAMINE_ANSWER_MAX);

        if (!k || k->refused || t->begun || !t->client_id)
                return false;
        if (examine_answer(k->examine, worker_snapshot(t->session->client.worker), &t->verdict, &probe) < 0)
                return false;
        buf_clear(&k->raw);
        t->state = H2_DRAINING;
        if (t->up.ended)
                answer_push(t);
        return true;
}
