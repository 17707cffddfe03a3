/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in an HTTP/1 session. Every request is judged by inject.c, in the clear too. One to a host that has
 * credentials, inside TLS, then has a struct http_swap: its head is kept as the client meant it, and what leaves is
 * written anew at the last moment, when the connection is there, with the values of that moment. The head with secrets
 * is wiped when the request is over; the record is made from the other.
 *
 * What comes back is searched, head and body (http_scrub.c).
 *
 * A body without X-Amz-Content-Sha256 must be hashed before its head can be signed: it is kept whole, up to a limit.
 */
#include "gateway/http/http_swap.h"
#include "gateway/creds/renew.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HEAD_MAX = 4 * POOL_CHUNK_BYTES };

/* Large, and needed only within one call. */
static _Thread_local struct header_view views[HTTP1_HEADERS_MAX];
static _Thread_local struct inject_plan plan;

static struct request_view view_of(const struct http_session *s, const struct http1_request *r,
                                   char host[static AUTHORITY_TEXT_MAX]) {
        struct request_view view = { .secure = s->secure != NULL,
                                     .method = r->method,
                                     .target = r->path,
                                     .now_s = (uint64_t)time(NULL),
                                     .headers = views };
        authority_text(&s->call.target, host);
        view.host = str_of(host);
        if (s->call.target.port == 443)
                view.host.n = (size_t)str_rfind(view.host, ':');
        for (size_t i = 0; i < r->head.n_headers; i++) {
                const struct http1_header *h = &r->head.headers[i];
                bool over = h->id == HEADER_EXPECT || h->id == HEADER_TRANSFER_ENCODING; /* once the body is here */
                if (!over || !s->swap || !s->swap->keeps_body)
                        views[view.n_headers++] = (struct header_view){ h->name, h->value };
        }
        return view;
}

/* --- before the request leaves --- */

static void refuse(struct http_session *s, enum reason reason, const char *why) {
        s->call.verdict.decision = DECISION_DENY;
        s->call.verdict.reason = (uint8_t)reason;
        s->call.verdict.rule = RULE_NONE;
        s->call.why = why;
        http_refuse(s);
}

static const char *too_large(const struct http_session *s) {
        return s->swap->renew ? "a request to a token endpoint has at most 64 KiB"
                              : sigv4_problem_text(SIGV4_TOO_LARGE);
}

/* The vault has spoken: the request goes on as if its connection had been opened just now, and is judged again. */
static void on_ready(struct swap *swap) {
        struct http_session *s = link_owner(swap, struct http_swap, swap)->session;
        s->call.upstream = take_ptr(&s->upstream);
        http_session_opened(s);
}

static void begin_keeping(struct http_session *s, const struct http1_request *r, size_t most) {
        struct http_swap *k = s->swap;
        k->keeps_body = true;
        k->body = BUF(most);
        s->up.head.max += 8 * VAULT_SECRET_MAX + most;
        s->request.chunked.bare = true;
        if (s->request.kind == BODY_LENGTH && s->request.left > most) {
                refuse(s, REASON_CREDENTIAL, too_large(s));
                return;
        }
        http_session_enter(s, HTTP_KEEPING);
        http_session_limit(s, http_settings(s)->idle_ns);
        if (r->expect_continue && s->client_minor > 0)
                (void)buf_add(&s->down.head, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool http_swap_judge(struct http_session *s, const struct http1_request *r) {
        struct worker *w = s->client.worker;
        if (!w->gateway->credentials)
                return true;
        char host[AUTHORITY_TEXT_MAX];
        struct request_view view = view_of(s, r, host);
        if (inject_judge(w->gateway->credentials, &s->call.target, &view, &plan) == INJECT_REFUSE) {
                refuse(s, REASON_CREDENTIAL, inject_problem_text(&plan));
                return false;
        }
        if (s->api && plan.n_swaps == 0) {
                refuse(s, REASON_CREDENTIAL,
                       "the request does not have the stand-in of this service's credential where its key belongs");
                return false;
        }
        if (!s->secure || !w->vault || credential_set_is_empty(&plan.set))
                return true;
        struct http_swap *k = s->swap = alloc_zeroed(sizeof *k);
        int e = k ? 0 : -ENOMEM;
        if (k) {
                k->session = s;
                k->plain = s->up.head;
                s->up.head = BUF(HEAD_MAX + SIGV4_CHUNK_MAX);
                swap_init(&k->swap, w, &s->call.target, &plan.set, on_ready);
                k->names = BUF(EVENT_TEXT_MAX);
                e = inject_names(&plan, w->gateway->credentials, &k->names);
        }
        if (e < 0) {
                http_refuse_bytes(s, 503, REASON_LIMIT, "Out of memory");
                return false;
        }
        e = http_renew_new(s, &plan, r->method, r->path);
        if (e < 0) {
                http_refuse_bytes(s, 503, REASON_LIMIT, "Out of memory");
                return false;
        }
        if (e > 0 && !s->request.done) {
                begin_keeping(s, r, RENEW_REQUEST_MAX);
                return false;
        }
        bool signs = plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4;
        if (signs && plan.sigv4.payload == PAYLOAD_BODY && !s->request.done) {
                begin_keeping(s, r, HTTP_SWAP_BODY_MAX);
                return false;
        }
        return true;
}

bool http_swap_trailers_pass(const struct http_session *s) {
        struct credential_hit hit;
        size_t at = 0;

        if (!s->request.done || s->trailers.n == 0)
                return true;
        return !credentials_find(s->client.worker->gateway->credentials, buf_str(&s->trailers), &at, &hit);
}

/* Reads what is there of the body. True when something moved. */
bool http_swap_keep_step(struct http_session *s) {
        struct http_swap *k = s->swap;
        struct str all, span;
        int e = http_flow_flush(&s->down, http_pool(s), s->client.stream);
        if (e < 0 && e != -EAGAIN) {
                http_session_end(s, true);
                return false;
        }
        e = http_exchange_body_bytes(s, &all);
        if (e == -EAGAIN)
                return false;
        if (e < 0) {
                http_session_end(s, true);
                return false;
        }
        struct str bytes = all;
        enum http1_result body;
        while ((body = http_body_next(&s->request, &bytes, &span)) == HTTP1_OK)
                if (buf_append(&k->body, span) < 0) {
                        refuse(s, REASON_CREDENTIAL, too_large(s));
                        return true;
                }
        if (body != HTTP1_MORE) {
                http_refuse_bytes(s, 400, REASON_PROTOCOL, http1_result_text(body));
                return true;
        }
        if (!http_swap_trailers_pass(s)) {
                refuse(s, REASON_CREDENTIAL, INJECT_IN_TRAILERS);
                return true;
        }
        if (http_session_keep(s, all, all.n - bytes.n) < 0) {
                http_session_end(s, true);
                return false;
        }
        if (!s->request.done)
                return true;
        timer_stop(&s->limit);
        http_session_enter(s, HTTP_HEAD);
        http_request_send(s);
        return s->state != HTTP_GONE;
}

/* --- the head that leaves --- */

/* Headers that http1_request_write() puts in by itself; they are taken over from the plain head, or written anew. */
static bool is_framing(unsigned id) {
        return id == HEADER_CONTENT_LENGTH || id == HEADER_TRANSFER_ENCODING || id == HEADER_HOST ||
               id == HEADER_CONNECTION || id == HEADER_UPGRADE;
}

static int put_line(struct buf *out, struct str name, struct str value) {
        int e = buf_append(out, name);
        e = e < 0 ? e : buf_append(out, STR(": "));
        e = e < 0 ? e : buf_append(out, value);
        return e < 0 ? e : buf_append(out, STR("\r\n"));
}

static int write_head(struct http_session *s, const struct http1_request *r, struct str host,
                      const struct swap_output *made) {
        struct http_swap *k = s->swap;
        struct buf *out = &s->up.head;
        struct str body = k->renew ? buf_str(&k->sent) : buf_str(&k->body);
        int e = buf_reserve(out, k->plain.n + made->text.n + body.n + 256); /* so that it never moves */
        e = e < 0 ? e : buf_append(out, r->method);
        e = e < 0 ? e : buf_add_char(out, ' ');
        e = e < 0 ? e : buf_append(out, made->target.p ? made->target : r->path);
        e = e < 0 ? e : buf_add(out, " HTTP/1.1\r\n");
        e = e < 0 ? e : put_line(out, STR("Host"), host);
        for (size_t i = 0; e == 0 && i < made->n_headers; i++)
                e = put_line(out, made->headers[i].name, made->headers[i].value);
        for (size_t i = 0; e == 0 && i < r->head.n_headers; i++) {
                const struct http1_header *h = &r->head.headers[i];
                bool length = h->id == HEADER_CONTENT_LENGTH || h->id == HEADER_TRANSFER_ENCODING;
                if (is_framing(h->id) && h->id != HEADER_HOST && !(length && k->keeps_body))
                        e = put_line(out, h->name, h->value);
        }
        if (e == 0 && k->keeps_body)
                e = buf_printf(out, "Content-Length: %zu\r\n", body.n);
        e = e < 0 ? e : buf_add(out, "\r\n");
        return e < 0 || !k->keeps_body ? e : buf_append(out, body);
}

static void wipe_sent(struct http_swap *k) {
        if (k->sent.p)
                secret_wipe(k->sent.p, k->sent.cap);
        buf_done(&k->sent);
}

/* Of the plain head, which was written by us: what leaves, with secrets. */
static int rewrite(struct http_session *s) {
        static _Thread_local struct http1_request request;
        static _Thread_local struct swap_output made;
        struct http_swap *k = s->swap;
        struct http1_progress at = { 0 };
        char host[AUTHORITY_TEXT_MAX], hash[DIGEST_HEX_MAX] = "";
        if (http1_request_parse(&at, buf_str(&k->plain), HEAD_MAX, &request) != HTTP1_OK)
                return -EMSGSIZE;
        struct request_view view = view_of(s, &request, host);
        if (inject_judge(s->client.worker->gateway->credentials, &s->call.target, &view, &plan) == INJECT_REFUSE)
                return -EACCES;
        int e = k->renew ? http_renew_prepare(s, &plan, on_ready) : 0;
        if (e == -EACCES && plan.problem)
                k->problem = inject_problem_text(&plan);
        e = e < 0 ? e : swap_ready(&k->swap, &plan);
        if (e < 0)
                return e;
        /* What frames the message goes under a signature as well, but is written by us. */
        if (k->keeps_body) {
                unsigned char digest[DIGEST_BYTES];
                digest_sha256(buf_str(&k->body), digest);
                digest_hex(digest, hash);
        }
        e = swap_rewrite(&k->swap, &view, &plan, str_of(hash), &made);
        if (e == 0 && k->renew) {
                wipe_sent(k);
                buf_clear(&k->names);
                e = inject_names(&plan, s->client.worker->gateway->credentials, &k->names);
                e = e < 0 ? e : http_renew_body(s, &plan, &k->sent);
                e = e == -EPIPE ? swap_again(&k->swap, &plan) : e;
        }
        size_t n = 0;
        for (size_t i = 0; e == 0 && i < made.n_headers; i++)
                if (!is_framing(http1_id_of(made.headers[i].name)))
                        made.headers[n++] = made.headers[i];
        made.n_headers = n;
        if (e == 0)
                e = write_head(s, &request, view.host, &made);
        bool chunks = plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4 &&
                      (plan.sigv4.payload == PAYLOAD_CHUNKS || plan.sigv4.payload == PAYLOAD_CHUNKS_TRAILER);
        struct sigv4_key key;
        if (e == 0 && chunks && !s->request.done) {
                e = swap_signing_key(&k->swap, &plan, &key)
                        ? sigv4_stream_init(&k->stream, &plan.sigv4, &key, made.seed)
                        : swap_again(&k->swap, &plan);
                secret_wipe(key.key, sizeof key.key);
                k->streaming = e == 0;
                k->chunks_up = s->request.chunked.bare = s->request.kind == BODY_CHUNKED;
        }
        swap_output_done(&made);
        return e;
}

static void wipe_head(struct http_session *s) {
        if (s->up.head.p)
                secret_wipe(s->up.head.p, s->up.head.cap);
        buf_clear(&s->up.head);
        s->up.head_at = 0;
}

bool http_swap_prepare(struct http_session *s) {
        struct http_swap *k = s->swap;
        wipe_head(s);
        if (k->streaming) /* another try: nothing of the body has left */
                sigv4_stream_done(&k->stream);
        k->streaming = false;
        int e = rewrite(s);
        if (e == 0)
                return true;
        wipe_head(s);
        if (e == -EINPROGRESS) {
                http_session_enter(s, HTTP_OPENING);
                return false;
        }
        stream_close(take_ptr(&s->upstream));
        if (e == -EMSGSIZE || e == -E2BIG)
                http_refuse_bytes(s, 431, REASON_CREDENTIAL, swap_error_text(-EMSGSIZE));
        else
                refuse(s, e == -EILSEQ || e == -EACCES || e == -EKEYREVOKED ? REASON_CREDENTIAL : REASON_VAULT,
                       k->problem ? k->problem : swap_error_text(e));
        return false;
}

void http_swap_free(struct http_session *s) {
        struct http_swap *k = s->swap;
        if (!k)
                return;
        wipe_head(s);
        http_renew_free(s);
        wipe_sent(k);
        http_swap_done_down(s);
        swap_done(&k->swap);
        if (k->streaming)
                sigv4_stream_done(&k->stream);
        buf_done(&k->plain);
        buf_done(&k->names);
        buf_done(&k->body);
        free(take_ptr(&s->swap));
}

/* --- bodies --- */

int http_swap_put(struct http_flow *f, struct str bytes) {
        if (bytes.n > 0 && f->head_at == f->head.n) {
                f->begun |= f->head_at > 0;
                f->head.n = 0;
                f->head_at = 0;
        }
        return buf_append(&f->head, bytes);
}

int http_swap_put_chunk(struct http_flow *f, struct str first, struct str second) {
        char size[24];
        if (first.n + second.n == 0)
                return 0;
        int n = snprintf(size, sizeof size, "%zx\r\n", first.n + second.n);
        int e = http_swap_put(f, str_n(size, (size_t)n));
        e = e < 0 ? e : http_swap_put(f, first);
        e = e < 0 ? e : http_swap_put(f, second);
        return e < 0 ? e : http_swap_put(f, STR("\r\n"));
}

int http_swap_push_up(struct http_session *s, struct str span) {
        struct http_swap *k = s->swap;
        if (!k->streaming)
                return http_flow_push(&s->up, http_pool(s), s->upstream, span);
        cleanup(buf_done) struct buf out = BUF(SIGV4_CHUNK_MAX + POOL_CHUNK_BYTES);
        int e = sigv4_stream_feed(&k->stream, span, &out);
        if (e < 0)
                return -EPROTO;
        e = k->chunks_up ? http_swap_put_chunk(&s->up, buf_str(&out), STR("")) : http_swap_put(&s->up, buf_str(&out));
        return e < 0 ? -EPROTO : http_flow_flush(&s->up, http_pool(s), s->upstream);
}

int http_swap_end_up(struct http_session *s) {
        struct http_swap *k = s->swap;
        if (!k->streaming)
                return 0;
        if (!sigv4_stream_is_whole(&k->stream))
                return -EPROTO;
        if (k->chunks_up && http_swap_put(&s->up, STR("0\r\n\r\n")) < 0)
                return -EPROTO;
        return http_flow_flush(&s->up, http_pool(s), s->upstream);
}
