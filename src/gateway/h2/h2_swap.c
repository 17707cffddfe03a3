/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in HTTP/2 streams. Every request is judged by inject.c. One to a host that has credentials keeps its
 * fields as the client sent them until the vault has given every value; what leaves is written then, with secrets in
 * fields that stay out of header tables. What comes back is searched (h2_scrub.c).
 *
 * A body that must be hashed before its head can be signed is kept whole, up to a limit for each stream and one for the
 * connection; one that is signed in chunks gets new signatures as its chunks become whole.
 */
#include "gateway/h2/h2_swap.h"
#include "gateway/creds/renew.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { WORK_BYTES = 65536 }; /* at a time */

/* Fields that end here are judged with the others, but do not leave. The view lies in `views`. */
static struct request_view view_of(const struct h2_stream *stream, const struct h2_fields *fields, bool leaving,
                                   struct header_view views[static H2_FIELDS_MAX]) {
        struct request_view view = { .secure = true,
                                     .method = h2_fields_find(fields, ":method"),
                                     .target = h2_fields_find(fields, ":path"),
                                     .host = str_of(stream->session->authority),
                                     .now_s = (uint64_t)time(NULL),
                                     .headers = views };
        if (!view.target.p)
                view.target = STR("/"); /* trailers have none */

        for (size_t i = 0; i < fields->n; i++) {
                struct str name = h2_field_name(fields, i);
                bool coding = leaving && str_is(name, "grpc-accept-encoding"); /* what could not be searched */
                bool ends = leaving ? h2_field_ends_here(name) : name.p[0] == ':' || str_is(name, "host");
                if (!ends && !coding)
                        views[view.n_headers++] = (struct header_view){ name, h2_field_value(fields, i) };
        }

        return view;
}

static void swap_refuse(struct h2_stream *stream, enum reason reason, const char *why) {
        stream->verdict = (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
        stream->why = why;
        h2_refuse(stream);
}

/* The list that leaves, in its order, with the values of this moment. */
static int send_swapped(struct h2_stream *stream, const struct request_view *view, const struct swap_output *made) {
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

        return h2_stream_send(stream, &head);
}

static int h2_swap_rewrite(struct h2_stream *stream) {
        static _Thread_local struct swap_output made; /* large, and needed only within this call */
        struct h2_swap *swap = stream->swap;
        struct header_view views[H2_FIELDS_MAX];
        struct request_view view = view_of(stream, swap->fields, true, views);
        int e = swap_judge(&swap->swap, &view);
        if (e < 0)
                return e;

        const struct swap_body body = { .kept = buf_str(&swap->body),
                                        .keeps = swap_hashes_body(&swap->swap.plan),
                                        .follows = stream->up.worked };

        e = swap_compose(&swap->swap, &view, &body, &made);
        if (e == 0 && swap->keeps_body) {
                stream->up.bytes = swap->body;
                stream->up.own = true;
                swap->body = BUF(0);
        }

        if (e == 0)
                e = send_swapped(stream, &view, &made);

        swap_output_done(&made);
        return e;
}

static void go_on(struct h2_stream *stream) {
        int e = h2_swap_rewrite(stream);
        switch (e) {
        case 0:
                return;
        case -EINPROGRESS:
                stream->state = H2_WAITING;
                return;
        case -EDQUOT:
                h2_stream_fail(stream, REASON_LIMIT, 0);

                return;
        case -ECONNRESET:
                h2_stream_fail(stream, REASON_UPSTREAM, e);
                return;
        case -EMSGSIZE:
        case -E2BIG:
                h2_refuse_bytes(stream, 431, REASON_CREDENTIAL, swap_error_text(-EMSGSIZE));

                return;
        default:
                swap_refuse(stream, swap_error_reason(e), swap_error_text(e));
        }
}

/* The vault has spoken. Meanwhile the policy may have changed, or the origin be gone. A request that was answered
 * meanwhile, since its body was too large or its time was up, is over: nothing of it may leave. */
static void on_ready(struct swap *swap) {
        struct h2_stream *stream = link_owner(swap, struct h2_swap, swap)->stream;
        struct h2_session *session = stream->session;

        if (stream->state != H2_WAITING)
                return;

        if (h2_request_judge(stream, h2_fields_find(stream->swap->fields, ":method")) && h2_request_can_leave(stream))
                go_on(stream);
        loop_soon(session->client.worker->loop, &session->later);
}

static int swap_begin(struct h2_stream *stream, const struct inject_plan *plan) {
        struct h2_side *side = &stream->session->side[H2_CLIENT];
        struct worker *worker = stream->session->client.worker;
        struct h2_fields *next = h2_fields_new(side->fields->max);
        struct h2_swap *swap = stream->swap = next ? alloc_zeroed(sizeof *swap) : NULL;
        if (!swap) {
                h2_fields_free(next);
                return -ENOMEM;
        }

        swap->stream = stream;
        swap->fields = side->fields;
        side->fields = next;

        return swap_init(&swap->swap, worker, &stream->session->target, plan, on_ready);
}

/* A place among what this connection makes us hold. */
static bool swap_reserve(struct h2_stream *stream, size_t n) {
        struct h2_session *session = stream->session;
        if (n > H2_KEPT_MAX - session->kept)
                return false;
        session->kept += n;
        stream->swap->reserved += n;
        return true;
}

static void begin_keeping(struct h2_stream *stream) {
        uint64_t length;
        struct str said = h2_fields_find(stream->swap->fields, "content-length");
        if (said.p && (!str_to_u64(said, UINT64_MAX, &length) || length > H2_SWAP_BODY_MAX)) {
                swap_refuse(stream, REASON_CREDENTIAL, sigv4_problem_text(SIGV4_TOO_LARGE));
                return;
        }

        stream->state = H2_KEEPING;
        stream->swap->keeps_body = true;
        stream->swap->body = BUF(H2_SWAP_BODY_MAX);
}

/* A chunk on its way in and one on its way out. */
static void begin_working(struct h2_stream *stream) {
        if (!swap_reserve(stream, 2 * SIGV4_CHUNK_MAX)) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Too much is waiting to be signed");
                return;
        }
        stream->up.worked = true;
        stream->up.raw = BUF(2 * H2_STREAM_WINDOW);
        go_on(stream);
}

bool h2_swap_take(struct h2_stream *stream) {
        struct worker *worker = stream->session->client.worker;
        if (!worker->gateway->credentials)
                return false;

        struct header_view views[H2_FIELDS_MAX];
        struct request_view view = view_of(stream, stream->session->side[H2_CLIENT].fields, false, views);
        struct inject_plan plan; /* of the request as it came */
        if (inject_judge(worker->gateway->credentials, &stream->session->target, &view, &plan) == INJECT_REFUSE) {
                swap_refuse(stream, REASON_CREDENTIAL, inject_problem_text(&plan));
                return true;
        }

        if (!swap_is_wanted(worker, &stream->session->target))
                return false;

        if (renew_leader(worker->gateway->credentials, &plan.set, view.method, view.target)) {
                swap_refuse(stream, REASON_CREDENTIAL,
                            "a sign-in is renewed over HTTP/1.1 only; offer http/1.1 beside h2");
                return true;
        }

        if (swap_begin(stream, &plan) < 0) {
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Out of memory");
                return true;
        }

        if (swap_hashes_body(&plan) && !stream->up.ended)
                begin_keeping(stream);
        else if (swap_signs_chunks(&plan) && !stream->up.ended)
                begin_working(stream);
        else
                go_on(stream);

        return true;
}

void h2_swap_keep(struct h2_stream *stream, struct str bytes) {
        struct h2_swap *swap = stream->swap;
        if (swap->body.n + bytes.n > H2_SWAP_BODY_MAX)
                swap_refuse(stream, REASON_CREDENTIAL, sigv4_problem_text(SIGV4_TOO_LARGE));
        else if (!swap_reserve(stream, bytes.n) || buf_append(&swap->body, bytes) < 0)
                h2_refuse_bytes(stream, 503, REASON_LIMIT, "Too much is waiting to be signed");
}

/* All of it is here. Meanwhile the policy may have changed, or the origin be gone. */
void h2_swap_kept(struct h2_stream *stream) {
        stream->state = H2_WAITING;
        if (h2_request_judge(stream, h2_fields_find(stream->swap->fields, ":method")) && h2_request_can_leave(stream))
                go_on(stream);
}

static int sign_some(struct h2_flow *flow) {
        struct h2_swap *swap = flow->stream->swap;
        struct str in = str_first(str_skip(buf_str(&flow->raw), flow->raw_at), WORK_BYTES);

        buf_clear(&flow->bytes);
        flow->at = 0;
        flow->bytes.max = SIGV4_CHUNK_MAX + 2 * WORK_BYTES;

        int e = 0;

        if (in.n > 0)
                e = sigv4_stream_feed(&swap->swap.stream, in, &flow->bytes);

        h2_flow_used(flow, in.n);

        if (e == 0 && flow->ended && flow->raw.n == 0) {
                flow->finished = true;
                e = sigv4_stream_is_whole(&swap->swap.stream) ? 0 : -EBADMSG;
        }

        return e;
}

void h2_swap_work(struct h2_flow *flow) {
        struct h2_stream *stream = flow->stream;
        int e = 0;
        while (e == 0 && !flow->finished && flow->at == flow->bytes.n) {
                size_t before = flow->raw.n - flow->raw_at;
                bool owed = flow->from == H2_ORIGIN && stream->swap->decoder && decoder_owes(stream->swap->decoder);
                if (before == 0 && !owed && !flow->ended)
                        return;

                if (flow->from == H2_CLIENT)
                        e = sign_some(flow);
                else
                        e = h2_swap_decode_some(flow);
        }

        if (e == 0)
                return;

        if (e == -ENOMEM)
                h2_stream_fail(stream, REASON_LIMIT, e);
        else if (flow->from == H2_ORIGIN)
                h2_stream_fail(stream, REASON_UPSTREAM, e);
        else
                h2_stream_cut(stream, REASON_PROTOCOL, "a signed body that is not framed as it says");

        loop_soon(stream->session->client.worker->loop, &stream->session->later);
}

bool h2_swap_trailers_pass(struct h2_stream *stream, const struct h2_fields *fields) {
        struct worker *worker = stream->session->client.worker;
        if (!worker->gateway->credentials)
                return true;
        struct header_view views[H2_FIELDS_MAX];
        struct request_view view = view_of(stream, fields, false, views);
        struct inject_plan plan;

        return inject_judge(worker->gateway->credentials, &stream->session->target, &view, &plan) == INJECT_PASS;
}

void h2_swap_free(struct h2_stream *stream) {
        struct h2_swap *swap = take_ptr(&stream->swap);
        if (!swap)
                return;

        swap_done(&swap->swap);
        h2_swap_done_down(swap);
        stream->session->kept -= swap->reserved;
        buf_done(&swap->body);
        h2_fields_free(swap->fields);
        free(swap);
}
