/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in HTTP/2 streams. Every request is judged by inject.c. One to a host that has credentials keeps its
 * fields as the client sent them until the vault has given every value; what leaves is written then, with secrets in
 * fields that stay out of header tables. What comes back is searched: heads, bodies, trailers.
 *
 * A body that must be signed is not carried here: intercept.c has such hosts speak HTTP/1.1, where it is.
 */
#include "gateway/h2_swap.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

/* Large, and needed only within one call. */
static _Thread_local struct header_view views[H2_FIELDS_MAX];
static _Thread_local struct inject_plan plan;

/* Fields that end here are judged with the others, but do not leave. */
static struct request_view view_of(const struct h2_stream *t, const struct h2_fields *f, bool leaving) {
        struct request_view view = { .secure = true,
                                     .method = h2_fields_pseudo(f, ":method"),
                                     .target = h2_fields_pseudo(f, ":path"),
                                     .host = str_of(t->session->authority),
                                     .now_s = clock_wall_us() / 1000000,
                                     .headers = views };
        if (!view.target.p)
                view.target = STR("/"); /* trailers have none */
        for (size_t i = 0; i < f->n; i++) {
                struct str name = h2_field_name(f, i);
                bool coding = leaving && str_is(name, "grpc-accept-encoding"); /* what could not be searched */
                bool ends = leaving ? h2_field_ends_here(name) : name.p[0] == ':' || str_is(name, "host");
                if (!ends && !coding)
                        views[view.n_headers++] = (struct header_view){ name, h2_field_value(f, i) };
        }
        return view;
}

static void refuse(struct h2_stream *t, enum reason reason, const char *why) {
        t->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
        t->why = why;
        h2_refuse(t);
}

static bool can_be_signed(const struct h2_stream *t) {
        bool empty = t->up.ended && t->up.bytes.n == 0;
        switch (plan.sigv4.payload) {
        case PAYLOAD_GIVEN:
        case PAYLOAD_UNSIGNED:
                return true;
        case PAYLOAD_BODY:
                return empty;
        default:
                return false;
        }
}

static bool is_signature(void) {
        return plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4;
}

/* The list that leaves, in its order, with the values of this moment. */
static int send_swapped(struct h2_stream *t, const struct request_view *view, const struct swap_output *made) {
        struct h2_nvs head = { 0 };
        h2_nvs_add(&head, STR(":method"), view->method, false);
        h2_nvs_add(&head, STR(":scheme"), STR("https"), false);
        h2_nvs_add(&head, STR(":authority"), view->host, false);
        h2_nvs_add(&head, STR(":path"), made->target.p ? made->target : view->target, made->target.p != NULL);
        for (size_t i = 0; i < made->n_headers; i++) {
                const char *p = made->headers[i].value.p;
                bool secret = made->text.p && p >= made->text.p && p < made->text.p + made->text.n;
                h2_nvs_add(&head, made->headers[i].name, made->headers[i].value, secret);
        }
        return h2_stream_send(t, &head);
}

static int rewrite(struct h2_stream *t) {
        static _Thread_local struct swap_output made;
        struct h2_swap *k = t->swap;
        char hash[DIGEST_HEX_MAX] = "";
        struct request_view view = view_of(t, k->fields, true);
        if (inject_judge(t->session->client.worker->gateway->credentials, &t->session->target, &view, &plan) ==
            INJECT_REFUSE)
                return -EACCES;
        int e = swap_ready(&k->swap, &plan);
        if (e < 0)
                return e;
        if (is_signature() && plan.sigv4.payload == PAYLOAD_BODY) {
                unsigned char digest[DIGEST_BYTES];
                digest_sha256(STR(""), digest);
                digest_hex(digest, hash);
        }
        e = swap_rewrite(&k->swap, &view, &plan, str_of(hash), &made);
        if (e == 0)
                e = send_swapped(t, &view, &made);
        swap_output_done(&made);
        return e;
}

static void go_on(struct h2_stream *t) {
        int e = rewrite(t);
        switch (e) {
        case 0:
                return;
        case -EINPROGRESS:
                t->state = H2_WAITING;
                return;
        case -EDQUOT:
                h2_stream_fail(t, REASON_LIMIT, 0);
                return;
        case -ECONNRESET:
                h2_stream_fail(t, REASON_UPSTREAM, e);
                return;
        case -EMSGSIZE:
        case -E2BIG:
                h2_refuse_bytes(t, 431, REASON_CREDENTIAL, swap_error_text(-EMSGSIZE));
                return;
        default:
                refuse(t, e == -EILSEQ || e == -EACCES ? REASON_CREDENTIAL : REASON_VAULT, swap_error_text(e));
        }
}

/* The vault has spoken. Meanwhile the policy may have changed, or the origin be gone. */
static void on_ready(struct swap *swap) {
        struct h2_stream *t = link_owner(swap, struct h2_swap, swap)->stream;
        struct h2_session *s = t->session;
        if (h2_request_judge(t, h2_fields_pseudo(t->swap->fields, ":method")) && h2_request_can_leave(t))
                go_on(t);
        loop_soon(s->client.worker->loop, &s->later);
}

static int begin(struct h2_stream *t) {
        struct h2_side *side = &t->session->side[H2_CLIENT];
        struct worker *w = t->session->client.worker;
        struct h2_fields *next = h2_fields_new(side->fields->max);
        struct h2_swap *k = t->swap = next ? alloc_zeroed(sizeof *k) : NULL;
        if (!k) {
                h2_fields_free(next);
                return -ENOMEM;
        }
        k->stream = t;
        k->fields = side->fields;
        k->names = BUF(EVENT_TEXT_MAX);
        side->fields = next;
        swap_init(&k->swap, w, &t->session->target, on_ready);
        return inject_names(&plan, w->gateway->credentials, &k->names);
}

bool h2_swap_take(struct h2_stream *t) {
        struct worker *w = t->session->client.worker;
        if (!w->gateway->credentials)
                return false;
        struct request_view view = view_of(t, t->session->side[H2_CLIENT].fields, false);
        if (inject_judge(w->gateway->credentials, &t->session->target, &view, &plan) == INJECT_REFUSE) {
                refuse(t, REASON_CREDENTIAL, inject_problem_text(&plan));
                return true;
        }
        if (!swap_is_wanted(w, &t->session->target))
                return false;
        if (is_signature() && !can_be_signed(t)) {
                refuse(t, REASON_CREDENTIAL, "a body that must be signed anew can only be sent over HTTP/1.1");
                return true;
        }
        if (begin(t) < 0)
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Out of memory");
        else
                go_on(t);
        return true;
}

bool h2_swap_trailers_pass(struct h2_stream *t, const struct h2_fields *f) {
        struct worker *w = t->session->client.worker;
        if (!w->gateway->credentials)
                return true;
        struct request_view view = view_of(t, f, false);
        return inject_judge(w->gateway->credentials, &t->session->target, &view, &plan) == INJECT_PASS;
}

void h2_swap_free(struct h2_stream *t) {
        struct h2_swap *k = take_ptr(&t->swap);
        if (!k)
                return;
        swap_done(&k->swap);
        if (scrub_is_on(&k->scrub))
                timer_stop(&k->patience);
        scrub_done(&k->scrub);
        h2_fields_free(k->fields);
        buf_done(&k->names);
        free(k);
}

/* what comes back */

static bool is_coded(const struct h2_fields *f) {
        for (size_t i = 0; i < f->n; i++) {
                struct str name = h2_field_name(f, i), value = h2_field_value(f, i);
                if ((str_is(name, "content-encoding") || str_is(name, "grpc-encoding")) && value.n > 0 &&
                    !str_eq_nocase(value, STR("identity")))
                        return true;
        }
        return false;
}

void h2_swap_scrub_fields(struct h2_stream *t, struct h2_fields *f) {
        if (t->swap && t->swap->swap.words && f->text.n > 0)
                scrub_text(t->swap->swap.words, f->text.p, f->text.n);
}

/* The origin has stopped where a secret may begin: perhaps its message is over. */
static void on_silence(struct timer *timer) {
        struct h2_swap *k = link_owner(timer, struct h2_swap, patience);
        struct h2_stream *t = k->stream;
        if (!t->down.dropped && h2_flow_add(&t->down, scrub_release(&k->scrub)) < 0)
                h2_stream_fail(t, REASON_LIMIT, -ENOMEM);
        h2_flow_resume(&t->down);
        loop_soon(t->session->client.worker->loop, &t->session->later);
}

int h2_swap_take_head(struct h2_stream *t, struct h2_fields *f, unsigned status, bool ended) {
        struct h2_swap *k = t->swap;
        if (!k || !k->swap.words)
                return 0;
        h2_swap_scrub_fields(t, f);
        swap_saw_status(&k->swap, status);
        if (status < 200 || ended)
                return 0;
        if (k->swap.telling && is_coded(f)) {
                t->why =
                    "The response is compressed although that was not asked for, so it cannot be searched for secrets.";
                return -EPROTO;
        }
        timer_init(&k->patience, t->session->client.worker->loop, on_silence);
        return scrub_init(&k->scrub, k->swap.words);
}

int h2_swap_add(struct h2_flow *f, char *bytes, size_t n) {
        struct h2_swap *k = f->stream->swap;
        struct str before = { 0 }, now = str_n(bytes, n);
        if (f->from == H2_ORIGIN && k && scrub_is_on(&k->scrub)) {
                scrub_feed(&k->scrub, bytes, n, &before, &now);
                if (k->scrub.n_held > 0)
                        timer_start(&k->patience, SCRUB_RELEASE_NS);
                else
                        timer_stop(&k->patience);
        }
        int r = h2_flow_add(f, before);
        return r < 0 ? r : h2_flow_add(f, now);
}

int h2_swap_end(struct h2_flow *f) {
        struct h2_swap *k = f->stream->swap;
        if (f->from != H2_ORIGIN || !k || !scrub_is_on(&k->scrub))
                return 0;
        timer_stop(&k->patience);
        int r = h2_flow_add(f, scrub_end(&k->scrub));
        scrub_done(&k->scrub);
        return r;
}
