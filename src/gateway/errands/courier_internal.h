/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of the courier; see courier.h. */
#include "gateway/errands/courier.h"
#include "gateway/wire/http1.h"
#include "gateway/wire/websocket.h"
#include "ipc/courier_messages.h"
#include "ipc/vault_messages.h"
#include "net/dial.h"
#include "net/resolve.h"
#include "net/tls.h"

enum { COURIER_EXCHANGES_MAX = 64, COURIER_HEAD_MAX = 65536 };

struct courier {
        struct loop *loop;
        struct resolver *resolver;
        struct tls_context *context;
        struct tls *tls;
        struct watch watch;
        struct buf in, out;
        struct link exchanges;
        size_t n_exchanges;
        int vault; /* -1: none */
        uint64_t last_question;
        char *room; /* for one message of the vault */
        bool ended;
};

enum exchange_state { EXCHANGE_CONNECTING, EXCHANGE_HEAD, EXCHANGE_BODY, EXCHANGE_SOCKET, EXCHANGE_OVER };

struct exchange {
        struct link link; /* in the courier's list */
        struct courier *courier;
        struct task freeing;
        uint64_t id;
        unsigned flags; /* enum courier_flags */
        uint64_t limit_ns;
        enum exchange_state state;
        bool secure, shaken;
        bool ending;  /* COURIER_BYTES: all of them are written, and so is the end */
        size_t heard; /* COURIER_BYTES: of somebody who should say nothing */
        struct authority target;
        struct authority verified; /* whose certificate it must be: the target's, unless another name was given */
        struct resolve_call resolving;
        struct dial *dial;
        struct stream *stream;
        struct timer limit;
        struct buf out, in, body;
        size_t sent;
        struct http1_progress progress;
        struct http1_chunked chunked;
        uint32_t status, retry_s;
        enum http1_body framing;
        uint64_t left; /* of a body with a length */
        char proof[WEBSOCKET_PROOF_MAX];
        bool in_pieces;       /* a message of several frames has begun */
        struct buf fragments; /* and this is there of it */
};

/* courier.c */
void courier_tell(struct courier *courier, const struct courier_message *message);

/* courier_exchange.c */
void exchange_start(struct courier *courier, const struct courier_message *message);
void exchange_send(struct exchange *exchange, struct str text);
void exchange_fail(struct exchange *exchange, const char *why);
void exchange_reply(struct exchange *exchange);

/* courier_bytes.c: may end it. */
void bytes_go_on(struct exchange *exchange);
void bytes_limit(struct exchange *exchange);

/* Nothing more is said about it. */
void exchange_end(struct exchange *exchange);

/* courier_token.c: the text with its marks replaced, into `out`, which the caller wipes. */
int courier_fill(struct courier *courier, struct str text, const struct authority *to, struct buf *out,
                 struct err *err);
