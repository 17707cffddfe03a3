/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials in an HTTP/1 session, for the http_*.c files only. Theory in http_swap.c. */
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
        struct timer patience;       /* with an origin that stops where a secret may begin */
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

/* The request's body; as http_flow_push(), and -EPROTO: it is not what it was said to be. */
int http_swap_push_up(struct http_session *s, struct str span);
int http_swap_end_up(struct http_session *s); /* it is over */
/* The response's head was written to down.head from `at` on; its body follows. 0, or -EPROTO: it cannot be searched. */
int http_swap_take_head(struct http_session *s, const struct http1_response *r, enum http1_body body, size_t at);
/* Whether what comes back is searched. */
static inline bool http_swap_is_searching(const struct http_session *s) {
        return s->swap && scrub_is_on(&s->swap->scrub);
}
/* Its body. push: 0 or -ENOMEM; end: no more will come. */
int http_swap_push_down(struct http_session *s, struct str span);
int http_swap_end_down(struct http_session *s);
