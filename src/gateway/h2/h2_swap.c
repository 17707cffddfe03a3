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
#include "base/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { WORK_BYTES = 65536 }; /* at a time */

/* Large, and needed only within one call. */
static _Thread_local struct header_view views[H2_FIELDS_MAX];
static _Thread_local struct inject_plan plan;

/* Fields that end here are judged with the others, but do not leave. */
static struct request_view view_of(const struct h2_stream *t, const struct h2_fields *f, bool leaving) {
        struct request_view view = { .secure = true,
                                     .method = h2_fields_find(f, ":method"),
                                     .target = h2_fields_find(f, ":path"),
                                     .host = str_of(t->session->authority),
                                     .now_s = (uint64_t)time(NULL),
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

static bool is_signature(void) {
        return plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4;
}

static bool is_chunked(void) {
        return is_signature() && (plan.sigv4.payload == PAYLOAD_CHUNKS || plan.sigv4.payload == PAYLOAD_CHUNKS_TRAILER);
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

/* With the key that signed the head; one that changed meanwhile is asked for, and the head is written again. */
static int begin_chunks(struct h2_swap *k, const char seed[static SIGV4_SIGNATURE_HEX]) {
        struct sigv4_key key;
        if (!swap_signing_key(&k->swap, &plan, &key))
                return swap_again(&k->swap, &plan);
        int e = sigv4_stream_init(&k->chunks, &plan.sigv4, &key, seed);
        secret_wipe(key.key, sizeof key.key);
        k->streaming = e == 0;
        return e == -EINVAL ? -EACCES : e;
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
                digest_sha256(buf_str(&k->body), digest);
                digest_hex(digest, hash);
        }
        e = swap_rewrite(&k->swap, &view, &plan, str_of(hash), &made);
        if (e == 0 && t->up.worked)
                e = begin_chunks(k, made.seed);
        if (e == 0 && k->keeps_body) {
                t->up.bytes = k->body;
                t->up.own = true;
                k->body = BUF(0);
        }
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
                refuse(t, e == -EILSEQ || e == -EACCES || e == -EKEYREVOKED ? REASON_CREDENTIAL : REASON_VAULT,
                       swap_error_text(e));
        }
}

/* The vault has spoken. Meanwhile the policy may have changed, or the origin be gone. */
static void on_ready(struct swap *swap) {
        struct h2_stream *t = link_owner(swap, struct h2_swap, swap)->stream;
        struct h2_session *s = t->session;
        if (h2_request_judge(t, h2_fields_find(t->swap->fields, ":method")) && h2_request_can_leave(t))
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
        swap_init(&k->swap, w, &t->session->target, &plan.set, on_ready);
        return inject_names(&plan, w->gateway->credentials, &k->names);
}

/* A place among what this connection makes us hold. */
static bool reserve(struct h2_stream *t, size_t n) {
        struct h2_session *s = t->session;
        if (n > H2_KEPT_MAX - s->kept)
                return false;
        s->kept += n;
        t->swap->reserved += n;
        return true;
}

static void begin_keeping(struct h2_stream *t) {
        uint64_t length;
        struct str said = h2_fields_find(t->swap->fields, "content-length");
        if (said.p && (!str_to_u64(said, UINT64_MAX, &length) || length > H2_SWAP_BODY_MAX)) {
                refuse(t, REASON_CREDENTIAL, sigv4_problem_text(SIGV4_TOO_LARGE));
                return;
        }
        t->state = H2_KEEPING;
        t->swap->keeps_body = true;
        t->swap->body = BUF(H2_SWAP_BODY_MAX);
}

/* A chunk on its way in and one on its way out. */
static void begin_working(struct h2_stream *t) {
        if (!reserve(t, 2 * SIGV4_CHUNK_MAX)) {
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Too much is waiting to be signed");
                return;
        }
        t->up.worked = true;
        t->up.raw = BUF(2 * H2_STREAM_WINDOW);
        go_on(t);
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
        if (renew_leader(w->gateway->credentials, &plan.set, view.method, view.target)) {
                refuse(t, REASON_CREDENTIAL, "a sign-in is renewed over HTTP/1.1 only; offer http/1.1 beside h2");
                return true;
        }
        if (begin(t) < 0) {
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Out of memory");
                return true;
        }
        if (!t->up.ended && is_signature() && plan.sigv4.payload == PAYLOAD_BODY)
                begin_keeping(t);
        else if (is_chunked() && !t->up.ended)
                begin_working(t);
        else
                go_on(t);
        return true;
}

void h2_swap_keep(struct h2_stream *t, struct str bytes) {
        struct h2_swap *k = t->swap;
        if (k->body.n + bytes.n > H2_SWAP_BODY_MAX)
                refuse(t, REASON_CREDENTIAL, sigv4_problem_text(SIGV4_TOO_LARGE));
        else if (!reserve(t, bytes.n) || buf_append(&k->body, bytes) < 0)
                h2_refuse_bytes(t, 503, REASON_LIMIT, "Too much is waiting to be signed");
}

/* All of it is here. Meanwhile the policy may have changed, or the origin be gone. */
void h2_swap_kept(struct h2_stream *t) {
        t->state = H2_WAITING;
        if (h2_request_judge(t, h2_fields_find(t->swap->fields, ":method")) && h2_request_can_leave(t))
                go_on(t);
}

static int sign_some(struct h2_flow *f) {
        struct h2_swap *k = f->stream->swap;
        struct str in = str_first(str_skip(buf_str(&f->raw), f->raw_at), WORK_BYTES);
        buf_clear(&f->bytes);
        f->at = 0;
        f->bytes.max = SIGV4_CHUNK_MAX + 2 * WORK_BYTES;
        int e = in.n > 0 ? sigv4_stream_feed(&k->chunks, in, &f->bytes) : 0;
        h2_flow_used(f, in.n);
        if (e == 0 && f->ended && f->raw.n == 0) {
                f->finished = true;
                e = sigv4_stream_is_whole(&k->chunks) ? 0 : -EBADMSG;
        }
        return e;
}

void h2_swap_work(struct h2_flow *f) {
        struct h2_stream *t = f->stream;
        int e = 0;
        while (e == 0 && !f->finished && f->at == f->bytes.n) {
                size_t before = f->raw.n - f->raw_at;
                bool owed = f->from == H2_ORIGIN && t->swap->decoder && decoder_owes(t->swap->decoder);
                if (before == 0 && !owed && !f->ended)
                        return;
                e = f->from == H2_CLIENT ? sign_some(f) : h2_swap_decode_some(f);
        }
        if (e == 0)
                return;
        bool client = f->from == H2_CLIENT;
        if (client)
                t->why = "A signed body that is not framed as it says.";
        h2_stream_fail(t, e == -ENOMEM ? REASON_LIMIT : client ? REASON_PROTOCOL : REASON_UPSTREAM, e);
        loop_soon(t->session->client.worker->loop, &t->session->later);
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
        h2_swap_done_down(k);
        if (k->streaming)
                sigv4_stream_done(&k->chunks);
        t->session->kept -= k->reserved;
        buf_done(&k->body);
        h2_fields_free(k->fields);
        buf_done(&k->names);
        free(k);
}
