/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The inside of an HTTP session, for the http_*.c files only. */
#include "gateway/gate.h"
#include "gateway/http/http_session.h"
#include "gateway/origin.h"
#include "gateway/wire/http1.h"
#include "net/relay.h"

/* Whose connections these are: a plain one never serves a request that was promised TLS. */
enum http_identity { IDENTITY_PLAIN, IDENTITY_HTTPS };

enum http_state {
        HTTP_HEAD,      /* waits for a request head, or for the rest of one */
        HTTP_OPENING,   /* the gate is asked for a connection, or the vault for a credential */
        HTTP_EXAMINING, /* the body is read, since what is in it decides whether it may be sent */
        HTTP_DRAINING,  /* the body of a request that was refused is thrown away, before the answer */
        HTTP_KEEPING,   /* the body is read, since it must be signed before it is sent */
        HTTP_EXCHANGE,  /* request goes out, response comes back */
        HTTP_ANSWER,    /* our own answer is on its way to the client */
        HTTP_SWITCH,    /* a 101 is on its way to the client */
        HTTP_RELAY,     /* after a 101 */
        HTTP_LINGER,    /* we said our last byte; the client's are thrown away so that it can read ours */
        HTTP_GONE,      /* freed at the end of the turn */
        HTTP_STATES
};

/* What is on its way to one stream: a head that we wrote, then bytes that passed, the last of them in a pipe. */
struct http_flow {
        struct buf head;
        size_t head_at; /* sent so far */
        bool begun;     /* bytes have left that are not in `head` any more */
        bool held;      /* nothing leaves now: what it is to be is not decided yet */
        struct pool_chunk *rest;
        struct pool_pipe *pipe; /* of a body that is spliced; NULL while none moves */
};

/* A body on its way, in either direction. */
struct http_body {
        uint8_t kind; /* enum http1_body */
        bool done;
        uint64_t left; /* BODY_LENGTH */
        struct http1_chunked chunked;
};

struct http_session;
/* After a 101: the connection belongs to another protocol. */
struct http_switched {
        struct relay relay;
        struct http_session *session;
};

/* A session inside TLS that was opened (gateway/intercept.h). */
struct http_secure {
        struct http_session *session;
        struct origin_call origin; /* TLS to the origin, while it is under way */
        struct stream *ready;      /* opened ahead of the first request */
        struct addr addr;          /* where that leads */
        const char *why;           /* of spoilt, for people */
        uint8_t spoilt; /* enum reason: the origin could not be connected to as it must be; no request passes */
        bool securing;  /* the gate is through, TLS is under way */
        bool used;      /* a request was taken: it is on record */
};

struct http_examine; /* gateway/http/http_examine.h */
struct http_swap;    /* gateway/http/http_swap.h */
struct override;     /* gateway/override.h */

struct http_session {
        struct client client;
        uint8_t state;   /* enum http_state */
        bool bound;      /* captured: call.target is fixed */
        bool api;        /* the API proxy: the target is in the path */
        bool partial;    /* `in` was looked at and holds no whole head */
        bool blank_line; /* an empty line before the next head was skipped */
        struct synthetic_hold hold;
        struct http_secure *secure; /* NULL: plain HTTP */
        struct pool_chunk *in;      /* from the client, not yet understood */
        struct http1_progress progress;
        struct timer limit;
        struct task later, destroy;
        struct link of_worker; /* all sessions of a worker, for the end */
        uint64_t lingered;     /* bytes thrown away */

        /* the request under way */
        struct gate_call call; /* target, verdict, generation, address */
        struct judged judged;
        struct http_swap *swap;          /* of a request to a host that has credentials */
        struct http_examine *examine;    /* of a request that is judged by more than method and path */
        const struct override *override; /* a header that asks for another request; NULL: none */
        struct stream *upstream;
        struct host_bytes *host_bytes; /* the counter, where bytes out are limited */
        struct http_switched *switched;
        struct http_flow up, down;
        struct pool_chunk *back; /* from the origin: an unfinished head */
        struct http1_progress back_progress;
        struct http_body request, response;
        struct buf trailers; /* the request's, where there are credentials: they do not leave, but are looked at */
        uint64_t since, bytes_in, bytes_out;
        uint16_t status;
        uint8_t method_n, client_minor, n_interim;
        uint32_t path_n;
        bool connect;       /* CONNECT */
        bool head_method;   /* HEAD */
        bool repeatable;    /* may be sent again if a pooled connection turns out to be dead */
        bool keep_client;   /* the client may send another request after this one */
        bool keep_upstream; /* the origin's connection may be used again */
        bool last;          /* not behind this request: the origin is told so */
        bool begun;         /* part of it may have reached the origin: on record as allowed, whatever happens then */
        bool cut;           /* unless its rest was refused */
        bool reused;        /* came from the pool */
        bool answered;      /* the origin sent something */
        bool head_sent;     /* the final response head was written towards the client */
        bool up_broken;     /* the origin takes no more bytes; it may still have answered */
        char upgrade[32];   /* protocol that was asked for, "" for none */
};

/* State changes, all through here. */
void http_session_enter(struct http_session *s, enum http_state state);
/* Makes what progress it can. */
void http_session_run(struct http_session *session);
/* Ends the session now. abort: the client sees a reset, so that a cut response is not taken for a whole one. */
void http_session_end(struct http_session *s, bool abort);
/* The request is over: records it and lets go of what belonged to it. The reason is that of the call's verdict. */
void http_session_record(struct http_session *session, bool allowed);
void http_session_next(struct http_session *session);
/* Of the request under way, as long as it is. */
struct str http_session_method(const struct http_session *session);
struct str http_session_path(const struct http_session *session);   /* without its query */
struct str http_session_target(const struct http_session *session); /* with it: as it will leave */
/* From now on the connection is one to the API proxy. 0 or -ENOMEM. */
int http_session_become_api(struct http_session *session);
/* Asks the gate for a new connection to call.target. */
void http_session_open(struct http_session *session);
void http_session_limit(struct http_session *session, uint64_t ns);
/* Keeps bytes[used..], which lie in the scratch area or in `in` itself, as what comes next. 0 or -ENOMEM. */
int http_session_keep(struct http_session *s, struct str bytes, size_t used);
static inline struct pool *http_pool(struct http_session *s) {
        return &s->client.worker->pool;
}
static inline const struct gateway_limits *http_settings(const struct http_session *s) {
        return &s->client.worker->limits;
}

/* What the client is told about its connection: old clients close unless they hear otherwise. NULL: nothing. */
static inline const char *http_session_connection(const struct http_session *s) {
        return !s->keep_client ? "close" : s->client_minor == 0 ? "keep-alive" : NULL;
}

/* http_request.c: a parsed head becomes the request under way; sent when its verdict allows it. */
void http_request_begin(struct http_session *session, const struct http1_request *request);
/* The API proxy changes r. */
void http_request_take(struct http_session *session, struct http1_request *request);
void http_request_send(struct http_session *session);
/* What the rules of the host say about this request, by the policy of this moment. granted: the target's verdict. */
struct verdict http_request_verdict(struct http_session *session, struct verdict granted);

/* http_secure.c: sessions inside TLS. */
struct stream *http_secure_take(struct http_session *s); /* the connection that was opened ahead, if it is any good */
void http_secure_open(struct http_session *s);           /* the gate has opened a connection: TLS on it */
void http_secure_refuse(struct http_session *session);
void http_secure_done(struct http_session *session);
/* Connections to origins are shared among sessions of the same identity only. */
static inline uint8_t http_session_identity(const struct http_session *s) {
        return s->secure ? IDENTITY_HTTPS : IDENTITY_PLAIN;
}
/* The connection that the gate and TLS have opened is there, or is not to be had (call.verdict). */
void http_session_opened(struct http_session *session);

/* Bytes of the request's body at hand, or read now. Negative: none, why. */
int http_exchange_body_bytes(struct http_session *session, struct str *ret);
/* http_exchange.c: one step each; true when something moved and the step should be tried again. */
void http_exchange_begin(struct http_session *session);
bool http_exchange_step(struct http_session *session);
bool http_switch_step(struct http_session *s);
/* The upstream did not answer in time, or its client did not send its body. */
/* What came back cannot be handed on; call.why says why. Not from inside of the exchange's own steps. */
void http_exchange_fail(struct http_session *session, int error);
void http_exchange_timeout(struct http_session *s);

/* http_flow.c: 0 when all is on its way, -EAGAIN when some waits, or the stream's error. */
int http_flow_push(struct http_flow *flow, struct pool *pool, struct stream *to, struct str bytes);
int http_flow_flush(struct http_flow *f, struct pool *pool, struct stream *to);
static inline bool http_flow_is_empty(const struct http_flow *f) {
        return f->head_at == f->head.n && !f->rest && (!f->pipe || f->pipe->n == 0);
}
/* Takes bytes of a stream that need no looking at into the flow, which is empty. Bytes, 0 at the stream's end, or its
 * error; -ENOSR: there is no pipe to be had, so copy. */
ssize_t http_flow_splice(struct http_flow *flow, struct pool *pool, struct stream *from, uint64_t max);
/* Nothing moves now: what is borrowed goes back. */
void http_flow_rest(struct http_flow *f, struct pool *pool);
void http_flow_done(struct http_flow *f, struct pool *pool);
/* What of `bytes` belongs to the body, in spans to pass on; *ret_used counts what was taken. HTTP1_MORE: wants more
 * bytes, HTTP1_OK: *ret_span is to be passed on, call again; else malformed. body->done is set at the end. */
enum http1_result http_body_next(struct http_body *body, struct str *bytes, struct str *ret_span);
/* How much of a body may pass without being looked at: 0 when its own bytes say where it ends. */
static inline uint64_t http_body_opaque(const struct http_body *b) {
        return b->done ? 0 : b->kind == BODY_LENGTH ? b->left : b->kind == BODY_UNTIL_CLOSE ? UINT64_MAX : 0;
}
/* So many of its opaque bytes have passed. */
void http_body_passed(struct http_body *body, uint64_t n);

/* http_refusal.c: answers the client, by verdict or for bytes that are no HTTP; or only records that it got no further.
 */
void http_refusal_record(struct http_session *session);
void http_refuse(struct http_session *session);
/* With an answer of this type and content; the reason is that of the verdict. */
void http_refuse_as(struct http_session *session, unsigned status, const char *type, struct str content);
void http_refuse_bytes(struct http_session *session, unsigned status, enum reason reason, const char *what);
/* The rest of a request that is on its way. why: what is wrong with it, for the record and the client. */
void http_refuse_rest(struct http_session *s, enum reason reason, const char *why);

/* http_pool.c: whenever a session begins to wait for a request, as all do at first, or ceases to. */
void upstream_pool_waits(struct upstream_pool *pool, bool waits);
/* A connection to the target that rests here, or NULL. once: what is sent on it cannot be sent again, so only one that
 * was used a moment ago and is alive now will do. */
struct stream *upstream_pool_take(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                                  bool once, struct addr *ret_addr);
/* Takes the stream over; it is closed when there is no place. */
void upstream_pool_put(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                       const struct addr *addr, struct stream *stream);
