/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials in an HTTP/1 session, for the http_*.c files only. Theory in http_swap.c. */
#include "gateway/creds/swap.h"
#include "gateway/http/http_internal.h"
#include "gateway/wire/decode.h"

#define HTTP_SWAP_BODY_MAX (16u << 20) /* of a body that must be hashed before its head can be signed */

/* A head that was read; its text is elsewhere. */
struct http_head_kept {
        struct str method, path;
        size_t n_headers;
        struct http1_header *headers;
};

struct http_swap {
        struct swap swap;
        struct http_session *session;
        struct buf plain; /* the head as the client meant it, with stand-ins: for the record, and for another try */
        struct http_head_kept head; /* that head, read once */
        struct buf body;            /* kept whole, because it is signed, or changed */
        struct buf sent;            /* what leaves of one that is changed; holds secrets */
        const char *problem;        /* why it is refused, when that is known */
        struct scrub scrub;
        struct timer patience;   /* with an origin that stops where a secret may begin */
        struct decoder *decoder; /* of a response that is coded */
        struct buf raw;          /* received for it and not yet decoded: [raw_at, n) */
        size_t raw_at;
        struct http_renew *renew;    /* of a request to a token endpoint; NULL: any other */
        bool keeps_body;             /* `body` is the request's body */
        bool chunks_up, chunks_down; /* framing is written here */
};

/* Judges the stand-ins in a request that policy allows. False: it was refused, or its body is being kept; else it can
 * be sent. */
bool http_swap_judge(struct http_session *session, const struct http1_request *request);
/* Right before the head leaves. False: not now, the vault is asked; or never, the answer is on its way. */
bool http_swap_prepare(struct http_session *session);
/* HTTP_KEEPING: the body that must be there first. */
bool http_swap_keep_step(struct http_session *session);

/* A request's trailers never leave (HTTP/1), or leave as they are (HTTP/2): a stand-in in them was meant to be
 * replaced, and somebody should hear that it was not. True while they are not complete. */
bool http_swap_trailers_pass(const struct http_session *session);

/* The request's body; as http_flow_push(), and -EPROTO: it is not what it was said to be. */
int http_swap_push_up(struct http_session *session, struct str span);
int http_swap_end_up(struct http_session *session); /* it is over */

/* http_renew.c: a request to a token endpoint. */
struct http_renew;
/* 1: it is one, and its body must be kept; 0: it is none; -ENOMEM. */
int http_renew_new(struct http_session *session, const struct inject_plan *plan, struct str method, struct str target);
void http_renew_free(struct http_session *session);
/* Judges the body, and asks that nobody else renews now. 0; -EINPROGRESS: `done` is called when it may go on;
 * -EACCES: plan->problem says why; or an error of the vault. */
int http_renew_prepare(struct http_session *session, const struct request_view *view, struct inject_plan *plan,
                       void (*done)(struct swap *session));
/* The body that leaves, with the values of this moment. -EPIPE: one has changed. */
int http_renew_body(struct http_session *session, const struct inject_plan *plan, struct buf *out);
/* A final head comes back: true when its body is held here until all of it was seen. */
bool http_renew_takes(struct http_session *session, unsigned status, enum http1_body body);
bool http_renew_is_on(const struct http_session *session);
/* Bytes of that body, decoded; and its end. As http_swap_push_down(). */
int http_renew_push(struct http_session *session, struct str span);
int http_renew_end(struct http_session *session);

/* http_scrub.c: what comes back. A head that is about to be written: a coding that can be undone is taken out of it,
 * and *body, if any, is then sent in chunks. -EPROTO: it can be neither undone nor searched. */
int http_swap_decode(struct http_session *session, struct http1_response *response, enum http1_body *body);
/* The response's head was written to down.head from `at` on; its body follows. 0, or -EPROTO: it cannot be searched. */
int http_swap_take_head(struct http_session *session, const struct http1_response *response, enum http1_body body,
                        size_t at);
/* Whether what comes back is searched. */
static inline bool http_swap_is_searching(const struct http_session *session) {
        return session->exchange.swap && scrub_is_on(&session->exchange.swap->scrub);
}
/* Its body: bytes, then what can be done with them, which is its end if no more will come. 0, -ENOMEM; -EBADMSG: they
 * are not coded as was said. */
int http_swap_push_down(struct http_session *session, struct str span);
int http_swap_settle_down(struct http_session *session);
/* More can be settled as soon as there is room, without another byte of the origin's. */
static inline bool http_swap_owes_down(const struct http_session *session) {
        return session->exchange.swap->decoder && decoder_owes(session->exchange.swap->decoder);
}
void http_swap_done_down(struct http_session *session);
