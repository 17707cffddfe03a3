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
#include "base/secrets/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HEAD_MAX = 4 * POOL_CHUNK_BYTES };

/* The request in a list of headers. It lies in `views` and `host`. */
static struct request_view view_of(const struct http_session *session, const struct http_head_kept *head,
                                   struct header_view views[static HTTP1_HEADERS_MAX],
                                   char host[static AUTHORITY_TEXT_MAX]) {
        struct request_view view = { .secure = session->secure != NULL,
                                     .method = head->method,
                                     .target = head->path,
                                     .now_s = (uint64_t)time(NULL),
                                     .headers = views };

        authority_text(&session->call.target, host);
        view.host = str_of(host);
        if (session->call.target.port == 443)
                view.host.n = (size_t)str_rfind(view.host, ':');

        for (size_t i = 0; i < head->n_headers; i++) {
                const struct http1_header *header = &head->headers[i];
                bool over =
                    header->id == HEADER_EXPECT || header->id == HEADER_TRANSFER_ENCODING; /* once the body is here */
                if (!over || !session->exchange.swap || !session->exchange.swap->keeps_body)
                        views[view.n_headers++] = (struct header_view){ header->name, header->value };
        }

        return view;
}

/* Reads the head that we wrote, once; for as long as the request lasts. 0, -EMSGSIZE, -ENOMEM. */
static int keep_head(struct http_swap *swap) {
        static _Thread_local struct http1_request request; /* large, and needed only within this call */
        struct http1_progress at = { 0 };

        if (http1_request_parse(&at, buf_str(&swap->plain), HEAD_MAX, &request) != HTTP1_OK)
                return -EMSGSIZE;

        size_t bytes = request.head.n_headers * sizeof *swap->head.headers;
        swap->head = (struct http_head_kept){ .method = request.method,
                                              .path = request.path,
                                              .n_headers = request.head.n_headers,
                                              .headers = malloc(bytes) };
        if (!swap->head.headers)
                return -ENOMEM;

        memcpy(swap->head.headers, request.head.headers, bytes);
        return 0;
}

/* --- before the request leaves --- */

static void http_swap_refuse(struct http_session *session, enum reason reason, const char *why) {
        session->call.verdict.rule = RULE_NONE;
        http_refuse_for(session, reason, why);
}

/* Its body was read, and none of it taken: where the next request begins is not known. */
static void refuse_kept(struct http_session *session, const char *why) {
        session->exchange.keep_client = false;
        http_swap_refuse(session, REASON_CREDENTIAL, why);
}

static const char *too_large(const struct http_session *session) {
        if (session->exchange.swap->renew)
                return "a request to a token endpoint has at most 64 KiB";

        return sigv4_problem_text(SIGV4_TOO_LARGE);
}

/* The vault has spoken. Meanwhile the policy may have changed: the request is judged again. */
static void on_ready(struct swap *swap) {
        struct http_session *s = link_owner(swap, struct http_swap, swap)->session;

        http_session_enter(s, HTTP_JUDGED);
        http_request_resume(s);
        if (s->state != HTTP_GONE)
                s->resume(s, 0);
}

static void begin_keeping(struct http_session *session, const struct http1_request *request, size_t most) {
        struct http_swap *swap = session->exchange.swap;

        swap->keeps_body = true;
        swap->body = BUF(most);
        session->exchange.up.head.max += 8 * VAULT_SECRET_MAX + most;
        session->exchange.request.chunked.bare = true;
        if (session->exchange.request.kind == BODY_LENGTH && session->exchange.request.left > most) {
                http_swap_refuse(session, REASON_CREDENTIAL, too_large(session));
                return;
        }

        http_session_enter(session, HTTP_KEEPING);
        http_session_limit(session, http_settings(session)->idle_ns);
        if (request->expect_continue && session->exchange.client_minor > 0)
                (void)buf_add(&session->exchange.down.head, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* 0, or why it is refused. */
static int swap_begin(struct http_session *session, const struct inject_plan *plan) {
        struct http_swap *swap = session->exchange.swap = alloc_zeroed(sizeof *swap);
        if (!swap)
                return -ENOMEM;

        swap->session = session;
        swap->plain = session->exchange.up.head;
        session->exchange.up.head = BUF(HEAD_MAX + SIGV4_CHUNK_MAX);
        int e = swap_init(&swap->swap, session->client.worker, &session->call.target, plan, on_ready);
        if (e < 0)
                return e;

        return keep_head(swap);
}

static void refuse_failed(struct http_session *session, int error) {
        if (swap_is_too_large(error))
                http_refuse_bytes(session, 431, REASON_CREDENTIAL, swap_error_text(-EMSGSIZE));
        else
                http_refuse_bytes(session, 503, REASON_LIMIT, "Out of memory");
}

/* False when it was refused. */
static bool judge_as_it_came(struct http_session *session, const struct http1_request *request,
                             struct inject_plan *plan) {
        const struct http_head_kept head = { .method = request->method,
                                             .path = request->path,
                                             .n_headers = request->head.n_headers,
                                             .headers = (struct http1_header *)request->head.headers };
        struct header_view views[HTTP1_HEADERS_MAX];
        char host[AUTHORITY_TEXT_MAX];
        struct request_view view = view_of(session, &head, views, host);

        if (inject_judge(session->client.worker->gateway->credentials, &session->call.target, &view, plan) ==
            INJECT_REFUSE) {
                http_swap_refuse(session, REASON_CREDENTIAL, inject_problem_text(plan));
                return false;
        }

        if (session->api && plan->n_swaps == 0) {
                http_swap_refuse(
                    session, REASON_CREDENTIAL,
                    "the request does not have the stand-in of this service's credential where its key belongs");
                return false;
        }

        return true;
}

bool http_swap_judge(struct http_session *session, const struct http1_request *request) {
        struct worker *worker = session->client.worker;
        struct inject_plan plan;

        if (!worker->gateway->credentials)
                return true;
        if (!judge_as_it_came(session, request, &plan))
                return false;
        if (!session->secure || !worker->vault || credential_set_is_empty(&plan.set))
                return true;

        int e = swap_begin(session, &plan);
        if (e == 0)
                e = http_renew_new(session, &plan, request->method, request->path);
        if (e < 0) {
                refuse_failed(session, e);
                return false;
        }

        if (e > 0 && !session->exchange.request.done) {
                begin_keeping(session, request, RENEW_REQUEST_MAX);
                return false;
        }

        if (swap_hashes_body(&plan) && !session->exchange.request.done) {
                begin_keeping(session, request, HTTP_SWAP_BODY_MAX);
                return false;
        }

        return true;
}

bool http_swap_trailers_pass(const struct http_session *session) {
        struct credential_hit hit;
        size_t at = 0;

        if (!session->exchange.request.done || session->exchange.trailers.n == 0)
                return true;
        return !credentials_find(session->client.worker->gateway->credentials, buf_str(&session->exchange.trailers),
                                 &at, &hit);
}

/* Reads what is there of the body. True when something moved. */
bool http_swap_keep_step(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;
        struct str all, span;
        int e = http_flow_flush(&session->exchange.down, http_pool(session), session->client.stream);
        if (e < 0 && e != -EAGAIN) {
                http_session_end(session, true);
                return false;
        }

        e = http_session_body_bytes(session, &all);
        if (e == -EAGAIN)
                return false;

        if (e < 0) {
                http_session_end(session, true);
                return false;
        }

        struct str bytes = all;
        enum http1_result body;

        while ((body = http_body_next(&session->exchange.request, &bytes, &span)) == HTTP1_OK)
                if (buf_append(&swap->body, span) < 0) {
                        refuse_kept(session, too_large(session));
                        return true;
                }

        if (body != HTTP1_MORE) {
                http_refuse_bytes(session, 400, REASON_PROTOCOL, http1_result_text(body));
                return true;
        }

        if (!http_body_fits(session)) {
                http_refuse_large(session);
                return true;
        }

        if (!http_swap_trailers_pass(session)) {
                refuse_kept(session, INJECT_IN_TRAILERS);
                return true;
        }

        if (http_session_keep(session, all, all.n - bytes.n) < 0) {
                http_session_end(session, true);
                return false;
        }

        if (!session->exchange.request.done)
                return true;

        timer_stop(&session->limit);
        http_session_enter(session, HTTP_JUDGED);
        http_request_send(session);

        return session->state != HTTP_GONE;
}

/* --- the head that leaves --- */

/* Headers that http1_request_write() puts in by itself; they are taken over from the plain head, or written anew. */
static bool is_framing(unsigned id) {
        return id == HEADER_CONTENT_LENGTH || id == HEADER_TRANSFER_ENCODING || id == HEADER_HOST ||
               id == HEADER_CONNECTION || id == HEADER_UPGRADE;
}

static int put_line(struct buf *out, struct str name, struct str value) {
        int e = buf_append(out, name);
        if (e < 0)
                return e;

        e = buf_append(out, STR(": "));
        if (e < 0)
                return e;

        e = buf_append(out, value);
        if (e < 0)
                return e;

        return buf_append(out, STR("\r\n"));
}

static int write_head(struct http_session *session, struct str host, const struct swap_output *made) {
        struct http_swap *swap = session->exchange.swap;
        const struct http_head_kept *head = &swap->head;
        struct buf *out = &session->exchange.up.head;
        struct str body = swap->renew ? buf_str(&swap->sent) : buf_str(&swap->body);
        struct str target = made->target.p ? made->target : head->path;
        int e = buf_reserve(out, swap->plain.n + made->text.n + body.n + 256); /* so that it never moves */

        if (e >= 0)
                e = buf_append(out, head->method);
        if (e >= 0)
                e = buf_add_char(out, ' ');
        if (e >= 0)
                e = buf_append(out, target);
        if (e >= 0)
                e = buf_add(out, " HTTP/1.1\r\n");
        if (e >= 0)
                e = put_line(out, STR("Host"), host);
        for (size_t i = 0; e == 0 && i < made->n_headers; i++)
                e = put_line(out, made->headers[i].name, made->headers[i].value);

        for (size_t i = 0; e == 0 && i < head->n_headers; i++) {
                const struct http1_header *header = &head->headers[i];
                bool length = header->id == HEADER_CONTENT_LENGTH || header->id == HEADER_TRANSFER_ENCODING;
                if (is_framing(header->id) && header->id != HEADER_HOST && !(length && swap->keeps_body))
                        e = put_line(out, header->name, header->value);
        }

        if (e == 0 && swap->keeps_body)
                e = buf_printf(out, "Content-Length: %zu\r\n", body.n);

        if (e >= 0)
                e = buf_add(out, "\r\n");
        if (e < 0 || !swap->keeps_body)
                return e;

        return buf_append(out, body);
}

/* Framing goes under a signature as well, but is written by us. */
static void drop_framing(struct swap_output *made) {
        size_t n = 0;

        for (size_t i = 0; i < made->n_headers; i++)
                if (!is_framing(http1_id_of(made->headers[i].name)))
                        made->headers[n++] = made->headers[i];

        made->n_headers = n;
}

/* The body of a request to a token endpoint, as it leaves. */
static int compose_body(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;

        secret_buf_done(&swap->sent);
        buf_clear(&swap->swap.names);
        int e = inject_names(&swap->swap.plan, session->client.worker->gateway->credentials, &swap->swap.names);
        if (e < 0)
                return e;

        e = http_renew_body(session, &swap->swap.plan, &swap->sent);
        if (e == -EPIPE)
                return swap_again(&swap->swap);

        return e;
}

/* What leaves, with secrets. */
static int http_swap_rewrite(struct http_session *session) {
        static _Thread_local struct swap_output made; /* large, and needed only within this call */
        struct http_swap *swap = session->exchange.swap;
        struct header_view views[HTTP1_HEADERS_MAX];
        char host[AUTHORITY_TEXT_MAX];
        struct request_view view = view_of(session, &swap->head, views, host);
        int e = swap_judge(&swap->swap, &view);
        if (e < 0)
                return e;

        if (swap->renew)
                e = http_renew_prepare(session, &view, &swap->swap.plan, on_ready);
        else
                e = 0;
        if (e == -EACCES && swap->swap.plan.problem)
                swap->problem = inject_problem_text(&swap->swap.plan);
        if (e < 0)
                return e;

        const struct swap_body body = { .kept = buf_str(&swap->body),
                                        .keeps = swap->keeps_body,
                                        .follows = !session->exchange.request.done };

        e = swap_compose(&swap->swap, &view, &body, &made);
        if (e == 0 && swap->renew)
                e = compose_body(session);

        if (e == 0) {
                drop_framing(&made);
                e = write_head(session, view.host, &made);
        }

        if (e == 0 && swap->swap.streaming)
                swap->chunks_up = session->exchange.request.chunked.bare =
                    session->exchange.request.kind == BODY_CHUNKED;

        swap_output_done(&made);
        return e;
}

bool http_swap_prepare(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;

        http_exchange_wipe_head(session);
        int e = http_swap_rewrite(session);
        if (e == 0)
                return true;

        http_exchange_wipe_head(session);

        if (e == -EINPROGRESS) {
                http_session_enter(session, HTTP_VAULT);
                return false;
        }

        stream_close(take_ptr(&session->exchange.upstream));

        if (swap_is_too_large(e))
                refuse_failed(session, e);
        else
                http_swap_refuse(session, swap_error_reason(e), swap->problem ? swap->problem : swap_error_text(e));

        return false;
}

/* --- bodies --- */

int http_swap_push_up(struct http_session *session, struct str span) {
        struct http_swap *swap = session->exchange.swap;
        if (!swap->swap.streaming)
                return http_flow_push(&session->exchange.up, http_pool(session), session->exchange.upstream, span);

        cleanup(buf_done) struct buf out = BUF(SIGV4_CHUNK_MAX + POOL_CHUNK_BYTES);
        int e = sigv4_stream_feed(&swap->swap.stream, span, &out);
        if (e < 0)
                return -EPROTO;

        if (swap->chunks_up)
                e = http_flow_queue_chunk(&session->exchange.up, buf_str(&out), STR(""));
        else
                e = http_flow_queue(&session->exchange.up, buf_str(&out));
        if (e < 0)
                return -EPROTO;

        return http_flow_flush(&session->exchange.up, http_pool(session), session->exchange.upstream);
}

int http_swap_end_up(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;
        if (!swap->swap.streaming)
                return 0;
        if (!sigv4_stream_is_whole(&swap->swap.stream))
                return -EPROTO;
        if (swap->chunks_up && http_flow_queue(&session->exchange.up, STR("0\r\n\r\n")) < 0)
                return -EPROTO;

        return http_flow_flush(&session->exchange.up, http_pool(session), session->exchange.upstream);
}
