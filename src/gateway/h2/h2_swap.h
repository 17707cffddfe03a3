/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials in HTTP/2 streams, for the h2_*.c files only. Theory in h2_swap.c. */
#include "gateway/creds/swap.h"
#include "gateway/h2/h2_internal.h"
#include "gateway/wire/decode.h"

#define H2_SWAP_BODY_MAX (16u << 20) /* of a body that must be hashed before its head can be signed */

struct h2_swap {
        struct swap swap;
        struct h2_stream *stream;
        struct h2_fields *fields; /* of the request, as the client sent them */
        struct scrub scrub;       /* of the response's body */
        struct timer patience;    /* with an origin that stops where a secret may begin */
        struct decoder *decoder;  /* of a response that is coded */
        struct buf body;          /* kept whole, because it is signed */
        size_t reserved;          /* of the session's H2_KEPT_MAX */
        bool keeps_body;          /* `body` is the request's body */
};

/* The request whose fields the client's side has just received: true when it is taken care of here (refused, waiting
 * for the vault, or sent), false when it may leave as it is. */
bool h2_swap_take(struct h2_stream *stream);
/* Whether a request's trailers are free of stand-ins. */
bool h2_swap_trailers_pass(struct h2_stream *stream, const struct h2_fields *fields);
void h2_swap_free(struct h2_stream *stream);

/* H2_KEEPING: bytes of the body, and its end. */
void h2_swap_keep(struct h2_stream *stream, struct str bytes);
void h2_swap_kept(struct h2_stream *stream);
/* Bytes that came become those that leave: in chunks that are signed, or decoded and searched. A failure ends the
 * stream. */
void h2_swap_work(struct h2_flow *flow);

/* h2_scrub.c: a response's head, made free of secrets. -EPROTO: its body cannot be, t->why says why. -ENOMEM. */
int h2_swap_take_head(struct h2_stream *stream, struct h2_fields *fields, unsigned status, bool ended);
void h2_swap_scrub_fields(struct h2_stream *stream, struct h2_fields *fields);
/* Bytes of a body into its flow, and its end. Changed in place where a secret is. */
int h2_swap_add(struct h2_flow *flow, char *bytes, size_t n);
int h2_swap_end(struct h2_flow *flow);
/* Some of what came is decoded. -EBADMSG, -ENOMEM. */
int h2_swap_decode_some(struct h2_flow *flow);
void h2_swap_done_down(struct h2_swap *h2_swap);
