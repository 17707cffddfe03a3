/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back to an HTTP/1 session from a host that has credentials: searched, head and body. A body with a length
 * keeps it; a chunked one is framed anew, since its last bytes may have to wait. What follows a 101 is searched as
 * well: no length changes, and frames from a server are not masked.
 *
 * A response in another content coding than was asked for (identity) is decoded, searched, and sent on as it is inside:
 * chunked, without what was said about the coded form (its length, its digests, its ranges), and with a weak ETag, as
 * the two are not the same bytes. To HEAD the same is said as to GET. A part of a coded body (206) and a coding that
 * cannot be undone are refused. The decoder is run when the client has taken what came out before, so that a body
 * that grows holds up its origin and not our memory.
 *
 * Where nothing but an AWS key id and a session's token are looked for, a coded body passes as it is: objects of S3 are
 * stored in any coding, their clients check digests over it, and these words are worth nothing without the secret key.
 */
#include "gateway/http/http_swap.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"
#include "gateway/creds/renew.h"

#include <errno.h>

enum { HEAD_MAX = 4 * POOL_CHUNK_BYTES };

/* coded responses */

static enum coding coding_in(const struct http1_response *response) {
        enum coding found = CODING_IDENTITY;
        for (size_t i = 0; i < response->head.n_headers; i++)
                if (str_eq_nocase(response->head.headers[i].name, STR("content-encoding")))
                        found = coding_add(found, response->head.headers[i].value);
        return found;
}

/* A strong one promises the same bytes. The line is written anew, behind the others. */
static void add_weak(struct http1_response *response, struct str etag) {
        static _Thread_local char line[HTTP1_NAME_MAX + 16]; /* of one only */
        struct buf text = { .p = line, .cap = sizeof line, .max = sizeof line };
        if (response->head.n_headers == HTTP1_HEADERS_MAX || buf_add(&text, "ETag: W/") < 0 ||
            buf_append(&text, etag) < 0 || buf_add(&text, "\r\n") < 0)
                return; /* without one, then */

        response->head.headers[response->head.n_headers++] = (struct http1_header){
                .name = str_n(line, 4), .value = str_n(line + 6, text.n - 8), .line_bytes = (uint32_t)text.n
        };
}

int http_swap_decode(struct http_session *session, struct http1_response *response, enum http1_body *body) {
        struct http_swap *swap = session->exchange.swap;
        bool held = http_renew_takes(session, response->status, *body);
        enum coding coding = held || (swap->swap.words && swap->swap.telling) ? coding_in(response) : CODING_IDENTITY;
        if (coding == CODING_IDENTITY && !held)
                return 0;

        if (coding == CODING_UNKNOWN || response->status == 206) {
                if (*body == BODY_NONE)
                        return 0;
                session->call.why =
                    "The response is compressed although that was not asked for, in a way that cannot be "
                    "undone, so it cannot be searched for secrets.";
                return -EPROTO;
        }

        for (size_t i = 0, n = response->head.n_headers; i < n; i++) {
                struct http1_header *header = &response->head.headers[i];
                bool strong = str_eq_nocase(header->name, STR("etag")) && !str_starts(header->value, STR("W/"));
                if (strong && !header->hop && response->head.n_headers == n)
                        add_weak(response, header->value);
                if (strong || coding_has_header(header->name) ||
                    (held && str_eq_nocase(header->name, STR("set-cookie"))))
                        header->hop = true;
        }

        response->head.body = BODY_CHUNKED; /* so that no length is told */
        if (*body == BODY_NONE)
                return 0;

        *body = BODY_CHUNKED;
        if (coding == CODING_IDENTITY)
                return 0;

        swap->raw = BUF(POOL_CHUNK_BYTES);
        return decoder_new(coding, &swap->decoder);
}

/* heads */

static bool is_compressed_socket(const struct http1_response *response) {
        for (size_t i = 0; response->status == 101 && i < response->head.n_headers; i++)
                if (str_eq_nocase(response->head.headers[i].name, STR("sec-websocket-extensions")))
                        return true;
        return false;
}

/* Behind what waits, which goes first; what the client does not take waits as well. */
static int send_body(struct http_session *session, struct str bytes) {
        struct http_flow *flow = &session->exchange.down;
        size_t waits = flow->head.n - flow->head_at;
        struct iovec parts[2] = { { flow->head.p + flow->head_at, waits }, { (void *)bytes.p, bytes.n } };
        ssize_t put =
            waits > 0 ? stream_writev(session->client.stream, parts, 2) : stream_write(session->client.stream, bytes);
        if (put < 0 && put != -EAGAIN)
                return (int)put;

        size_t sent = put > 0 ? (size_t)put : 0;
        size_t of_head = min_of(sent, waits);
        flow->head_at += of_head;
        flow->begun |= sent > 0;

        return http_flow_queue(flow, str_skip(bytes, sent - of_head));
}

static int put_body(struct http_session *session, struct str first, struct str second) {
        if (session->exchange.swap->chunks_down)
                return http_flow_queue_chunk(&session->exchange.down, first, second);
        int e = http_flow_queue(&session->exchange.down, first);
        if (e < 0 || second.n == 0)
                return e;
        bool in_pieces = session->exchange.response.kind == BODY_CHUNKED; /* they are gathered */
        if (in_pieces)
                return http_flow_queue(&session->exchange.down, second);

        return send_body(session, second);
}

/* The origin has stopped where a secret may begin: perhaps its message is over. */
static void on_silence(struct timer *timer) {
        struct http_swap *swap = link_owner(timer, struct http_swap, patience);
        struct http_session *session = swap->session;

        session->resume(session, put_body(session, scrub_release(&swap->scrub), STR("")));
}

int http_swap_take_head(struct http_session *session, const struct http1_response *response, enum http1_body body,
                        size_t at) {
        struct http_swap *swap = session->exchange.swap;

        if (http_renew_is_on(session)) {
                swap->chunks_down = !session->exchange.response.chunked.bare;
                session->exchange.response.chunked.bare = true;
                session->exchange.down.head.max = HEAD_MAX + 8 * RENEW_ANSWER_MAX;
        }

        if (!swap->swap.words)
                return 0;

        scrub_text(swap->swap.words, session->exchange.down.head.p + at, session->exchange.down.head.n - at);
        swap_saw_status(&swap->swap, response->status);
        if (http_renew_is_on(session))
                return 0;
        if (response->status != 101 && (response->status < 200 || body == BODY_NONE))
                return 0;

        if (swap->swap.telling && is_compressed_socket(response)) {
                session->call.why =
                    "The WebSocket is compressed although that was not asked for, so it cannot be searched "
                    "for secrets.";
                return -EPROTO;
        }

        swap->chunks_down = body == BODY_CHUNKED && !session->exchange.response.chunked.bare;
        session->exchange.response.chunked.bare = true;
        session->exchange.down.head.max = HEAD_MAX + 3 * VAULT_SECRET_MAX;
        scrub_done(&swap->scrub);
        timer_init(&swap->patience, session->client.worker->loop, on_silence);

        return scrub_init(&swap->scrub, swap->swap.words);
}

/* bodies */

static int http_scrub_search(struct http_session *session, char *bytes, size_t n) {
        struct http_swap *swap = session->exchange.swap;
        struct str before, now;
        swap_search(&swap->scrub, &swap->patience, bytes, n, &before, &now);
        return put_body(session, before, now);
}

/* All of it at once: it is small, and nobody reads it yet. */
static int decode_held(struct http_session *session, struct str span) {
        struct http_swap *swap = session->exchange.swap;
        char plain[4096];
        int r = 0;

        while (r == 0 && (span.n > 0 || decoder_owes(swap->decoder))) {
                ssize_t n = decoder_run(swap->decoder, &span, plain, sizeof plain);
                if (n < 0) {
                        session->call.why = "The response is not compressed in the way that it says.";
                        r = n == -ENOMEM ? -ENOMEM : -EBADMSG;
                } else {
                        r = http_renew_push(session, str_n(plain, (size_t)n));
                }
        }

        secret_wipe(plain, sizeof plain);
        return r;
}

int http_swap_push_down(struct http_session *session, struct str span) {
        struct http_swap *swap = session->exchange.swap;

        if (http_renew_is_on(session)) {
                if (swap->decoder)
                        return decode_held(session, span);
                return http_renew_push(session, span);
        }
        if (!scrub_is_on(&swap->scrub))
                return http_flow_push(&session->exchange.down, http_pool(session), session->client.stream, span);
        if (swap->decoder)
                return buf_append(&swap->raw, span);

        return http_scrub_search(session, (char *)span.p, span.n); /* in our own scratch area */
}

static int decode_some(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;
        struct str in = str_skip(buf_str(&swap->raw), swap->raw_at);
        char *out = http_pool(session)->scratch;
        ssize_t n = decoder_run(swap->decoder, &in, out, POOL_CHUNK_BYTES);
        if (n < 0) {
                session->call.why = n == -E2BIG ? "The response grows without end when it is decompressed."
                                                : "The response is not compressed in the way that it says.";
                if (n == -ENOMEM)
                        return -ENOMEM;

                return -EBADMSG;
        }

        swap->raw_at = swap->raw.n - in.n;

        if (in.n == 0) {
                buf_clear(&swap->raw);
                swap->raw_at = 0;
        }

        if (n > 0)
                return http_scrub_search(session, out, (size_t)n);

        return 0;
}

static int end_body(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;
        if (swap->decoder && !decoder_is_whole(swap->decoder)) {
                session->call.why = "The response ends in the middle of its compressed form.";
                return -EBADMSG;
        }

        int e = put_body(session, scrub_end(&swap->scrub), STR(""));
        if (e == 0 && swap->chunks_down)
                e = http_flow_queue(&session->exchange.down, STR("0\r\n\r\n"));

        http_swap_done_down(session);
        return e;
}

static int end_held(struct http_session *session) {
        struct http_swap *k = session->exchange.swap;

        if (k->decoder && !decoder_is_whole(k->decoder)) {
                session->call.why = "The response ends in the middle of its compressed form.";
                return -EBADMSG;
        }

        decoder_free(take_ptr(&k->decoder));
        return http_renew_end(session);
}

int http_swap_settle_down(struct http_session *session) {
        struct http_swap *swap = session->exchange.swap;

        if (http_renew_is_on(session)) {
                if (session->exchange.response.done)
                        return end_held(session);
                return 0;
        }
        if (!scrub_is_on(&swap->scrub))
                return 0;

        int e = 0;

        if (swap->decoder)
                e = decode_some(session);

        if (e < 0 || !session->exchange.response.done || (swap->decoder && decoder_owes(swap->decoder)))
                return e;

        return end_body(session);
}

void http_swap_done_down(struct http_session *session) {
        struct http_swap *k = session->exchange.swap;
        if (scrub_is_on(&k->scrub))
                timer_stop(&k->patience);
        scrub_done(&k->scrub);
        decoder_free(take_ptr(&k->decoder));
        buf_done(&k->raw);
        k->raw_at = 0;
}
