/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of an HTTP session, for the http_*.c files only. */
#include "gateway/gate.h"
#include "gateway/http/http_session.h"
#include "gateway/origin.h"
#include "gateway/wire/http1.h"
#include "net/relay.h"

/* Whose connections these are: a plain one never serves a request that was promised TLS. */
enum http_identity { IDENTITY_PLAIN, IDENTITY_HTTPS };

/* Changed by http_session_enter() only. */
enum http_state {
        HTTP_HEAD,      /* waits for a request head, or for the rest of one */
        HTTP_JUDGED,    /* nothing is under way any more: in this turn it is judged once more, then sent or refused */
        HTTP_OPENING,   /* the gate is asked for a connection */
        HTTP_ASKING,    /* a person is asked about what is in its body */
        HTTP_VAULT,     /* its connection is there, and the vault is asked for a credential */
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

/* One request and its response (http_exchange.c). The call to the gate is beside it: its target may be the
 * connection's. */
struct http_exchange {
        struct judged judged;
        struct http_swap *swap;          /* of a request to a host that has credentials */
        struct http_examine *examine;    /* of a request that is judged by more than method and path */
        const struct override *override; /* a header that asks for another request; NULL: none */
        struct stream *upstream;
        struct host_bytes *host_bytes; /* the counter, where bytes out are limited */
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

/* The connection of one client, exchange after exchange. */
struct http_session {
        struct client client;
        uint8_t state;             /* enum http_state */
        bool bound;                /* captured: call.target is fixed */
        bool api;                  /* the API proxy: the target is in the path */
        bool partial;              /* `in` was looked at and holds no whole head */
        bool blank_line;           /* an empty line before the next head was skipped */
        http_connected *connected; /* what becomes of a CONNECT; NULL: there can be none */
        /* Something came outside its turn (an answer of the vault's, bytes, a timer): goes on with what there is.
         * error: what came back cannot be handed on; call.why says why. The only way up from what serves an exchange,
         * and not from inside the session's own steps. */
        void (*resume)(struct http_session *session, int error);
        struct synthetic_hold hold;
        struct http_secure *secure; /* NULL: plain HTTP */
        struct pool_chunk *in;      /* from the client, not yet understood */
        struct http1_progress progress;
        struct timer limit;
        struct task later, destroy;
        struct link of_worker; /* all sessions of a worker, for the end */
        uint64_t lingered;     /* bytes thrown away */
        struct http_switched *switched;
        struct gate_call call; /* target, verdict, generation, address */
        struct http_exchange exchange;
};

/* http_state.c: state changes, all through here. */
void http_session_enter(struct http_session *session, enum http_state state);
/* Ends the session now. abort: the client sees a reset, so that a cut response is not taken for a whole one. */
void http_session_end(struct http_session *session, bool abort);
/* The exchange is over and on record: waits for the next request, or for the client's end. */
void http_session_next(struct http_session *session);
void http_session_limit(struct http_session *session, uint64_t ns);
/* Keeps bytes[used..], which lie in the scratch area or in `in` itself, as what comes next. 0 or -ENOMEM. */
int http_session_keep(struct http_session *session, struct str bytes, size_t used);
/* Bytes of the request's body at hand, or read now. Negative: none, why. */
int http_session_body_bytes(struct http_session *session, struct str *ret);

/* http_session.c: asks the gate for a new connection to call.target. */
void http_session_open(struct http_session *session);

/* http_exchange.c: a parsed head becomes the request under way; what is needed of it behind its bytes is copied. */
void http_exchange_begin(struct http_session *session, const struct http1_request *request);
/* Lets go of everything that belonged to it. */
void http_exchange_done(struct http_session *session);
/* The reason is that of the call's verdict. */
void http_exchange_record(struct http_session *session, bool allowed);
/* As long as it lasts. */
struct str http_exchange_method(const struct http_session *session);
struct str http_exchange_path(const struct http_session *session);   /* without its query */
struct str http_exchange_target(const struct http_session *session); /* with it: as it will leave */
/* The head that was written for the origin holds a secret. */
void http_exchange_wipe_head(struct http_session *session);

static inline struct pool *http_pool(struct http_session *session) {
        return &session->client.worker->pool;
}
static inline const struct gateway_limits *http_settings(const struct http_session *session) {
        return &session->client.worker->limits;
}

/* What the client is told about its connection: old clients close unless they hear otherwise. NULL: nothing. */
static inline const char *http_session_connection(const struct http_session *session) {
        if (!session->exchange.keep_client)
                return "close";
        return session->exchange.client_minor == 0 ? "keep-alive" : NULL;
}

/* http_request.c: where it wants to go and whether it may; sent when its verdict allows it. */
/* The API proxy changes it. */
void http_request_take(struct http_session *session, struct http1_request *request);
void http_request_send(struct http_session *session);
/* Its connection is there, or is not to be had; meanwhile the policy may have changed. Begins the exchange or refuses.
 */
void http_request_resume(struct http_session *session);
/* What the rules of the host say about this request, by the policy of this moment. granted: the target's verdict. */
struct verdict http_request_verdict(struct http_session *session, struct verdict granted);

/* http_secure.c: sessions inside TLS. */
struct stream *
http_secure_take(struct http_session *session); /* the connection that was opened ahead, if it is any good */
/* The gate has opened a connection: TLS on it. */
void http_secure_open(struct http_session *session, void (*done)(struct origin_call *call));
void http_secure_done(struct http_session *session);
/* From now on the connection is one to the API proxy. 0 or -ENOMEM. */
int http_secure_become_api(struct http_session *session);
/* Connections to origins are shared among sessions of the same identity only. */
static inline uint8_t http_session_identity(const struct http_session *session) {
        return session->secure ? IDENTITY_HTTPS : IDENTITY_PLAIN;
}

/* http_pump.c: the request leaves, now; then one step each: true when something moved and it should be tried again. */
void http_pump_start(struct http_session *session);
bool http_pump_step(struct http_session *session);
/* The upstream did not answer in time, or its client did not send its body. */
void http_pump_timeout(struct http_session *session);
/* What came back cannot be handed on: it is not what it was said to be (-EBADMSG), or the client does not listen. */
void http_pump_fail(struct http_session *session, int error);
/* The client went away or broke its own framing in the middle of the exchange. */
void http_pump_fail_client(struct http_session *session, enum reason reason);

/* http_switch.c: a step as above, while a 101 is on its way. */
bool http_switch_step(struct http_session *session);
/* Both connections of the protocol behind it are closed. */
void http_switch_stop(struct http_session *session, bool abort);

/* http_flow.c: 0 when all is on its way, -EAGAIN when some waits, or the stream's error. */
int http_flow_push(struct http_flow *flow, struct pool *pool, struct stream *to, struct str bytes);
int http_flow_flush(struct http_flow *flow, struct pool *pool, struct stream *to);
static inline bool http_flow_is_empty(const struct http_flow *flow) {
        return flow->head_at == flow->head.n && !flow->rest && (!flow->pipe || flow->pipe->n == 0);
}
/* Takes bytes of a stream that need no looking at into the flow, which is empty. Bytes, 0 at the stream's end, or its
 * error; -ENOSR: there is no pipe to be had, so copy. */
ssize_t http_flow_splice(struct http_flow *flow, struct pool *pool, struct stream *from, uint64_t max);
/* Behind what is on its way already; the flow's head is a queue like any other. */
int http_flow_queue(struct http_flow *flow, struct str bytes);
int http_flow_queue_chunk(struct http_flow *flow, struct str first, struct str second);
/* Nothing moves now: what is borrowed goes back. */
void http_flow_rest(struct http_flow *flow, struct pool *pool);
void http_flow_done(struct http_flow *flow, struct pool *pool);
/* What of `bytes` belongs to the body, in spans to pass on; *ret_used counts what was taken. HTTP1_MORE: wants more
 * bytes, HTTP1_OK: *ret_span is to be passed on, call again; else malformed. body->done is set at the end. */
enum http1_result http_body_next(struct http_body *body, struct str *bytes, struct str *ret_span);
/* How much of a body may pass without being looked at: 0 when its own bytes say where it ends. */
static inline uint64_t http_body_opaque(const struct http_body *http_body) {
        if (http_body->done)
                return 0;
        if (http_body->kind == BODY_LENGTH)
                return http_body->left;
        return http_body->kind == BODY_UNTIL_CLOSE ? UINT64_MAX : 0;
}
/* So many of its opaque bytes have passed. */
void http_body_passed(struct http_body *body, uint64_t n);

/* http_refusal.c: answers the client, by verdict or for bytes that are no HTTP; or only records that it got no further.
 */
void http_refusal_record(struct http_session *session);
void http_refuse(struct http_session *session);
/* By a verdict that is made here. why: for the record and the client; NULL: the reason says it all. */
void http_refuse_for(struct http_session *session, enum reason reason, const char *why);
/* With an answer of this type and content; the reason is that of the verdict. */
void http_refuse_as(struct http_session *session, unsigned status, const char *type, struct str content);
void http_refuse_bytes(struct http_session *session, unsigned status, enum reason reason, const char *what);
/* The rest of a request that is on its way. why: what is wrong with it, for the record and the client. */
void http_refuse_rest(struct http_session *session, enum reason reason, const char *why);
/* Whether the body is within network.limits.body_bytes as far as is known: by its length, or by the chunks so far. */
bool http_body_fits(const struct http_session *session);
void http_refuse_large(struct http_session *session);

/* http_pool.c: whenever a session begins to wait for a request, as all do at first, or ceases to. */
void upstream_pool_waits(struct upstream_pool *pool, bool waits);
/* A connection to the target that rests here, or NULL. once: what is sent on it cannot be sent again, so only one that
 * was used a moment ago and is alive now will do. */
struct stream *upstream_pool_take(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                                  bool once, struct addr *ret_addr);
/* Takes the stream over; it is closed when there is no place. */
void upstream_pool_put(struct upstream_pool *pool, const struct authority *target, uint8_t identity,
                       const struct addr *addr, struct stream *stream);
