/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials in an HTTP/1 session, for the http_*.c files only. Theory in http_swap.c. */
#include "gateway/decode.h"
#include "gateway/http_session.h"
#include "gateway/sigv4_stream.h"
#include "gateway/swap.h"

#define HTTP_SWAP_BODY_MAX (16u << 20) /* of a body that must be hashed before its head can be signed */

struct http_swap {
        struct swap swap;
        struct http_session *session;
        struct buf plain; /* the head as the client meant it, with stand-ins: for the record, and for another try */
        struct buf names; /* of what was swapped */
        struct buf body;  /* kept whole, because it is signed */
        struct sigv4_stream stream;
        struct scrub scrub;
        struct timer patience;   /* with an origin that stops where a secret may begin */
        struct decoder *decoder; /* of a response that is coded */
        struct buf raw;          /* received for it and not yet decoded: [raw_at, n) */
        size_t raw_at;
        bool keeps_body;             /* `body` is the request's body */
        bool streaming;              /* `stream` signs the request's body */
        bool chunks_up, chunks_down; /* framing is written here */
};

/* Judges the stand-ins in a request that policy allows. False: it was refused, or its body is being kept; else it can
 * be sent. */
bool http_swap_judge(struct http_session *s, const struct http1_request *r);
/* Right before the head leaves. False: not now, the vault is asked; or never, the answer is on its way. */
bool http_swap_prepare(struct http_session *s);
/* HTTP_KEEPING: the body that must be there first. */
bool http_swap_keep_step(struct http_session *s);
void http_swap_free(struct http_session *s);

/* A request's trailers never leave (HTTP/1), or leave as they are (HTTP/2): a stand-in in them was meant to be
 * replaced, and somebody should hear that it was not. True while they are not complete. */
bool http_swap_trailers_pass(const struct http_session *s);

/* The request's body; as http_flow_push(), and -EPROTO: it is not what it was said to be. */
int http_swap_push_up(struct http_session *s, struct str span);
int http_swap_end_up(struct http_session *s); /* it is over */
/* Behind what is on its way already; the flow's head is a queue like any other. */
int http_swap_put(struct http_flow *f, struct str bytes);
int http_swap_put_chunk(struct http_flow *f, struct str first, struct str second);

/* http_scrub.c: what comes back. A head that is about to be written: a coding that can be undone is taken out of it,
 * and *body, if any, is then sent in chunks. -EPROTO: it can be neither undone nor searched. */
int http_swap_decode(struct http_session *s, struct http1_response *r, enum http1_body *body);
/* The response's head was written to down.head from `at` on; its body follows. 0, or -EPROTO: it cannot be searched. */
int http_swap_take_head(struct http_session *s, const struct http1_response *r, enum http1_body body, size_t at);
/* Whether what comes back is searched. */
static inline bool http_swap_is_searching(const struct http_session *s) {
        return s->swap && scrub_is_on(&s->swap->scrub);
}
/* Its body: bytes, then what can be done with them, which is its end if no more will come. 0, -ENOMEM; -EBADMSG: they
 * are not coded as was said. */
int http_swap_push_down(struct http_session *s, struct str span);
int http_swap_settle_down(struct http_session *s);
/* More can be settled as soon as there is room, without another byte of the origin's. */
static inline bool http_swap_owes_down(const struct http_session *s) {
        return s->swap->decoder && decoder_owes(s->swap->decoder);
}
void http_swap_done_down(struct http_session *s);
