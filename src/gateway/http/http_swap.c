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

static struct request_view view_of(const struct http_session *session, const struct http1_request *request,
                                   char host[static AUTHORITY_TEXT_MAX]) {
        struct request_view view = { .secure = session->secure != NULL,
                                     .method = request->method,
                                     .target = request->path,
                                     .now_s = (uint64_t)time(NULL),
                                     .headers = views };

        authority_text(&session->call.target, host);
        view.host = str_of(host);
        if (session->call.target.port == 443)
                view.host.n = (size_t)str_rfind(view.host, ':');

        for (size_t i = 0; i < request->head.n_headers; i++) {
                const struct http1_header *header = &request->head.headers[i];
                bool over =
                    header->id == HEADER_EXPECT || header->id == HEADER_TRANSFER_ENCODING; /* once the body is here */
                if (!over || !session->swap || !session->swap->keeps_body)
                        views[view.n_headers++] = (struct header_view){ header->name, header->value };
        }

        return view;
}

/* --- before the request leaves --- */

static void http_swap_refuse(struct http_session *session, enum reason reason, const char *why) {
        session->call.verdict.decision = DECISION_DENY;
        session->call.verdict.reason = (uint8_t)reason;
        session->call.verdict.rule = RULE_NONE;
        session->call.why = why;
        http_refuse(session);
}

static const char *too_large(const struct http_session *session) {
        return session->swap->renew ? "a request to a token endpoint has at most 64 KiB"
                                    : sigv4_problem_text(SIGV4_TOO_LARGE);
}

/* The vault has spoken: the request goes on as if its connection had been opened just now, and is judged again. */
static void on_ready(struct swap *swap) {
        struct http_session *s = link_owner(swap, struct http_swap, swap)->session;
        s->call.upstream = take_ptr(&s->upstream);
        http_session_opened(s);
}

static void begin_keeping(struct http_session *session, const struct http1_request *request, size_t most) {
        struct http_swap *swap = session->swap;

        swap->keeps_body = true;
        swap->body = BUF(most);
        session->up.head.max += 8 * VAULT_SECRET_MAX + most;
        session->request.chunked.bare = true;
        if (session->request.kind == BODY_LENGTH && session->request.left > most) {
                http_swap_refuse(session, REASON_CREDENTIAL, too_large(session));
                return;
        }

        http_session_enter(session, HTTP_KEEPING);
        http_session_limit(session, http_settings(session)->idle_ns);
        if (request->expect_continue && session->client_minor > 0)
                (void)buf_add(&session->down.head, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool http_swap_judge(struct http_session *session, const struct http1_request *request) {
        struct worker *worker = session->client.worker;
        if (!worker->gateway->credentials)
                return true;

        char host[AUTHORITY_TEXT_MAX];
        struct request_view view = view_of(session, request, host);
        if (inject_judge(worker->gateway->credentials, &session->call.target, &view, &plan) == INJECT_REFUSE) {
                http_swap_refuse(session, REASON_CREDENTIAL, inject_problem_text(&plan));
                return false;
        }

        if (session->api && plan.n_swaps == 0) {
                http_swap_refuse(
                    session, REASON_CREDENTIAL,
                    "the request does not have the stand-in of this service's credential where its key belongs");
                return false;
        }

        if (!session->secure || !worker->vault || credential_set_is_empty(&plan.set))
                return true;

        struct http_swap *swap = session->swap = alloc_zeroed(sizeof *swap);
        int e = swap ? 0 : -ENOMEM;

        if (swap) {
                swap->session = session;
                swap->plain = session->up.head;
                session->up.head = BUF(HEAD_MAX + SIGV4_CHUNK_MAX);
                swap_init(&swap->swap, worker, &session->call.target, &plan.set, on_ready);
                swap->names = BUF(EVENT_TEXT_MAX);
                e = inject_names(&plan, worker->gateway->credentials, &swap->names);
        }

        if (e < 0) {
                http_refuse_bytes(session, 503, REASON_LIMIT, "Out of memory");
                return false;
        }

        e = http_renew_new(session, &plan, request->method, request->path);
        if (e < 0) {
                http_refuse_bytes(session, 503, REASON_LIMIT, "Out of memory");
                return false;
        }

        if (e > 0 && !session->request.done) {
                begin_keeping(session, request, RENEW_REQUEST_MAX);
                return false;
        }

        bool signs = plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4;
        if (signs && plan.sigv4.payload == PAYLOAD_BODY && !session->request.done) {
                begin_keeping(session, request, HTTP_SWAP_BODY_MAX);
                return false;
        }

        return true;
}

bool http_swap_trailers_pass(const struct http_session *session) {
        struct credential_hit hit;
        size_t at = 0;

        if (!session->request.done || session->trailers.n == 0)
                return true;
        return !credentials_find(session->client.worker->gateway->credentials, buf_str(&session->trailers), &at, &hit);
}

/* Reads what is there of the body. True when something moved. */
bool http_swap_keep_step(struct http_session *session) {
        struct http_swap *swap = session->swap;
        struct str all, span;
        int e = http_flow_flush(&session->down, http_pool(session), session->client.stream);
        if (e < 0 && e != -EAGAIN) {
                http_session_end(session, true);
                return false;
        }

        e = http_exchange_body_bytes(session, &all);
        if (e == -EAGAIN)
                return false;

        if (e < 0) {
                http_session_end(session, true);
                return false;
        }

        struct str bytes = all;
        enum http1_result body;

        while ((body = http_body_next(&session->request, &bytes, &span)) == HTTP1_OK)
                if (buf_append(&swap->body, span) < 0) {
                        http_swap_refuse(session, REASON_CREDENTIAL, too_large(session));
                        return true;
                }

        if (body != HTTP1_MORE) {
                http_refuse_bytes(session, 400, REASON_PROTOCOL, http1_result_text(body));
                return true;
        }

        if (!http_swap_trailers_pass(session)) {
                http_swap_refuse(session, REASON_CREDENTIAL, INJECT_IN_TRAILERS);
                return true;
        }

        if (http_session_keep(session, all, all.n - bytes.n) < 0) {
                http_session_end(session, true);
                return false;
        }

        if (!session->request.done)
                return true;

        timer_stop(&session->limit);
        http_session_enter(session, HTTP_HEAD);
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

static int write_head(struct http_session *session, const struct http1_request *request, struct str host,
                      const struct swap_output *made) {
        struct http_swap *swap = session->swap;
        struct buf *out = &session->up.head;
        struct str body = swap->renew ? buf_str(&swap->sent) : buf_str(&swap->body);
        int e = buf_reserve(out, swap->plain.n + made->text.n + body.n + 256); /* so that it never moves */

        e = e < 0 ? e : buf_append(out, request->method);
        e = e < 0 ? e : buf_add_char(out, ' ');
        e = e < 0 ? e : buf_append(out, made->target.p ? made->target : request->path);
        e = e < 0 ? e : buf_add(out, " HTTP/1.1\r\n");
        e = e < 0 ? e : put_line(out, STR("Host"), host);
        for (size_t i = 0; e == 0 && i < made->n_headers; i++)
                e = put_line(out, made->headers[i].name, made->headers[i].value);

        for (size_t i = 0; e == 0 && i < request->head.n_headers; i++) {
                const struct http1_header *header = &request->head.headers[i];
                bool length = header->id == HEADER_CONTENT_LENGTH || header->id == HEADER_TRANSFER_ENCODING;
                if (is_framing(header->id) && header->id != HEADER_HOST && !(length && swap->keeps_body))
                        e = put_line(out, header->name, header->value);
        }

        if (e == 0 && swap->keeps_body)
                e = buf_printf(out, "Content-Length: %zu\r\n", body.n);

        e = e < 0 ? e : buf_add(out, "\r\n");
        return e < 0 || !swap->keeps_body ? e : buf_append(out, body);
}

static void wipe_sent(struct http_swap *swap) {
        if (swap->sent.p)
                secret_wipe(swap->sent.p, swap->sent.cap);
        buf_done(&swap->sent);
}

/* Of the plain head, which was written by us: what leaves, with secrets. */
static int http_swap_rewrite(struct http_session *session) {
        static _Thread_local struct http1_request request;
        static _Thread_local struct swap_output made;
        struct http_swap *swap = session->swap;
        struct http1_progress at = { 0 };
        char host[AUTHORITY_TEXT_MAX], hash[DIGEST_HEX_MAX] = "";

        if (http1_request_parse(&at, buf_str(&swap->plain), HEAD_MAX, &request) != HTTP1_OK)
                return -EMSGSIZE;

        struct request_view view = view_of(session, &request, host);
        if (inject_judge(session->client.worker->gateway->credentials, &session->call.target, &view, &plan) ==
            INJECT_REFUSE)
                return -EACCES;

        int e = swap->renew ? http_renew_prepare(session, &view, &plan, on_ready) : 0;
        if (e == -EACCES && plan.problem)
                swap->problem = inject_problem_text(&plan);

        e = e < 0 ? e : swap_ready(&swap->swap, &plan);
        if (e < 0)
                return e;

        /* What frames the message goes under a signature as well, but is written by us. */
        if (swap->keeps_body) {
                unsigned char digest[DIGEST_BYTES];

                digest_sha256(buf_str(&swap->body), digest);
                digest_hex(digest, hash);
        }

        e = swap_rewrite(&swap->swap, &view, &plan, str_of(hash), &made);
        if (e == 0 && swap->renew) {
                wipe_sent(swap);
                buf_clear(&swap->names);
                e = inject_names(&plan, session->client.worker->gateway->credentials, &swap->names);
                e = e < 0 ? e : http_renew_body(session, &plan, &swap->sent);
                e = e == -EPIPE ? swap_again(&swap->swap, &plan) : e;
        }

        size_t n = 0;

        for (size_t i = 0; e == 0 && i < made.n_headers; i++)
                if (!is_framing(http1_id_of(made.headers[i].name)))
                        made.headers[n++] = made.headers[i];

        made.n_headers = n;
        if (e == 0)
                e = write_head(session, &request, view.host, &made);

        bool chunks = plan.n_swaps > 0 && plan.swaps[0].slot == SLOT_SIGV4 &&
                      (plan.sigv4.payload == PAYLOAD_CHUNKS || plan.sigv4.payload == PAYLOAD_CHUNKS_TRAILER);
        struct sigv4_key key;

        if (e == 0 && chunks && !session->request.done) {
                e = swap_signing_key(&swap->swap, &plan, &key)
                        ? sigv4_stream_init(&swap->stream, &plan.sigv4, &key, made.seed)
                        : swap_again(&swap->swap, &plan);
                secret_wipe(key.key, sizeof key.key);
                swap->streaming = e == 0;
                swap->chunks_up = session->request.chunked.bare = session->request.kind == BODY_CHUNKED;
        }

        swap_output_done(&made);
        return e;
}

static void wipe_head(struct http_session *session) {
        if (session->up.head.p)
                secret_wipe(session->up.head.p, session->up.head.cap);
        buf_clear(&session->up.head);
        session->up.head_at = 0;
}

bool http_swap_prepare(struct http_session *s) {
        struct http_swap *swap = s->swap;

        wipe_head(s);
        if (swap->streaming) /* another try: nothing of the body has left */
                sigv4_stream_done(&swap->stream);

        swap->streaming = false;
        int e = http_swap_rewrite(s);
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
                http_swap_refuse(s,
                                 e == -EILSEQ || e == -EACCES || e == -EKEYREVOKED ? REASON_CREDENTIAL : REASON_VAULT,
                                 swap->problem ? swap->problem : swap_error_text(e));

        return false;
}

void http_swap_free(struct http_session *s) {
        struct http_swap *swap = s->swap;
        if (!swap)
                return;

        wipe_head(s);
        http_renew_free(s);
        wipe_sent(swap);
        http_swap_done_down(s);
        swap_done(&swap->swap);

        if (swap->streaming)
                sigv4_stream_done(&swap->stream);

        buf_done(&swap->plain);
        buf_done(&swap->names);
        buf_done(&swap->body);
        free(take_ptr(&s->swap));
}

/* --- bodies --- */

int http_swap_put(struct http_flow *flow, struct str bytes) {
        if (bytes.n > 0 && flow->head_at == flow->head.n) {
                flow->begun |= flow->head_at > 0;
                flow->head.n = 0;
                flow->head_at = 0;
        }
        return buf_append(&flow->head, bytes);
}

int http_swap_put_chunk(struct http_flow *flow, struct str first, struct str second) {
        char size[24];

        if (first.n + second.n == 0)
                return 0;

        int n = snprintf(size, sizeof size, "%zx\r\n", first.n + second.n);
        int e = http_swap_put(flow, str_n(size, (size_t)n));
        if (e < 0)
                return e;

        e = http_swap_put(flow, first);
        if (e < 0)
                return e;

        e = http_swap_put(flow, second);
        if (e < 0)
                return e;

        return http_swap_put(flow, STR("\r\n"));
}

int http_swap_push_up(struct http_session *session, struct str span) {
        struct http_swap *swap = session->swap;
        if (!swap->streaming)
                return http_flow_push(&session->up, http_pool(session), session->upstream, span);

        cleanup(buf_done) struct buf out = BUF(SIGV4_CHUNK_MAX + POOL_CHUNK_BYTES);
        int e = sigv4_stream_feed(&swap->stream, span, &out);
        if (e < 0)
                return -EPROTO;

        e = swap->chunks_up ? http_swap_put_chunk(&session->up, buf_str(&out), STR(""))
                            : http_swap_put(&session->up, buf_str(&out));
        return e < 0 ? -EPROTO : http_flow_flush(&session->up, http_pool(session), session->upstream);
}

int http_swap_end_up(struct http_session *session) {
        struct http_swap *swap = session->swap;
        if (!swap->streaming)
                return 0;
        if (!sigv4_stream_is_whole(&swap->stream))
                return -EPROTO;
        if (swap->chunks_up && http_swap_put(&session->up, STR("0\r\n\r\n")) < 0)
                return -EPROTO;

        return http_flow_flush(&session->up, http_pool(session), session->upstream);
}
