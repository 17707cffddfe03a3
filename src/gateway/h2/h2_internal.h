/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of an HTTP/2 session, for the h2_*.c files only. nghttp2 is seen by them and nobody else. */
#include "gateway/gate.h"
#include "gateway/h2/h2_session.h"
#include "gateway/load/quota.h"
#include "net/pool.h"

#include <nghttp2/nghttp2.h>

/* Limits. Those on bytes are what one connection can make us hold: H2_BUDGET + H2_CONNECTION_WINDOW each way, beside
 * the heads. */
#define H2_STREAMS_MAX 128
#define H2_STREAM_WINDOW (256u << 10)
#define H2_CONNECTION_WINDOW (1u << 20)
#define H2_BUDGET (2u << 20) /* queued bytes beyond which the connection's window is not opened again */
#define H2_FIELDS_MAX 128
#define H2_FIELD_OVERHEAD 32 /* by which a field counts more than its text (RFC 9113, 6.5.2) */
#define H2_INTERIM_MAX 16
#define H2_KEPT_MAX (64u << 20) /* of bodies that are signed before they leave, in all streams */
#define H2_OUTBOUND_MAX 1024    /* frames that wait for a peer that does not read; beyond it we do not read either */

/* A list of fields, in one text. Offsets, since the text moves while it grows. */
struct h2_field {
        uint32_t name, name_n, value, value_n;
        bool sensitive; /* the sender asked that it be kept out of tables */
};

struct h2_fields {
        struct buf text;
        size_t n, size; /* as RFC 9113 counts */
        size_t max;     /* of size */
        bool too_large; /* what came beyond the limit was not kept */
        struct h2_field at[H2_FIELDS_MAX];
};

struct override; /* gateway/override.h */

struct h2_stream;
struct h2_examine; /* gateway/h2/h2_examine.h */
struct h2_swap;    /* gateway/h2/h2_swap.h */

/* A body on its way from one side to the other. */
struct h2_flow {
        struct h2_stream *stream;
        struct buf bytes; /* received and not sent on; [at, n) */
        size_t at;
        size_t gift;    /* of `bytes`, at the front: no window waits for these */
        size_t unsent;  /* received and not sent on, also what is held back elsewhere */
        struct buf raw; /* of a body that leaves as other bytes than came (h2_swap_work()): those; [raw_at, n) */
        size_t raw_at;
        struct h2_fields *trailers;
        uint8_t from;  /* H2_CLIENT or H2_ORIGIN */
        bool ended;    /* no more will come */
        bool sent;     /* and all of it has left */
        bool deferred; /* the far side waits for more */
        bool dropped;  /* nobody wants it: what still comes is thrown away */
        bool own;      /* whole, and no window waits for it: an answer of ours, or a body that was kept */
        bool worked;   /* `raw` is used */
        bool finished; /* and nothing more will come of it */
};

enum h2_state {
        H2_HEAD,      /* its head is being received */
        H2_EXAMINING, /* its body is received, since what is in it decides whether it may be sent */
        H2_DRAINING,  /* it was refused, and the answer waits until all of its body was thrown away */
        H2_KEEPING,   /* its body is received, since it must be signed before its head is sent */
        H2_WAITING,   /* the vault is asked, or a person */
        H2_PASSING,   /* joined to a stream of the origin's */
        H2_ANSWERED,  /* by ourselves */
        H2_STATES
};

/* A request and its response. Lives until the streams of both connections are closed, then is on record. */
struct h2_stream {
        struct link link;
        struct h2_session *session;
        struct judged judged;
        struct h2_flow up, down;
        struct h2_examine *examine;   /* of a request that is judged by more than method and path */
        struct h2_swap *swap;         /* of a request to a host that has credentials */
        int32_t client_id, origin_id; /* 0: closed, or none yet */
        uint8_t state;                /* enum h2_state */
        uint8_t n_interim;
        uint16_t status;
        bool recorded;
        bool head_sent;    /* the final response's head was handed to the client's side */
        bool begun;        /* part of it may have reached the origin */
        bool left;         /* its head was written to the origin's connection */
        bool taken_back;   /* the origin's stream was reset by us */
        bool origin_reset; /* the origin sent RST_STREAM itself */
        verdict_yes asked;
        char *method, *path;             /* for the record; path without its query */
        const struct override *override; /* a header that asks for another request; NULL: none */
        bool cut;                        /* its rest was refused: on record as refused, though it had begun */
        bool client_reset;               /* by the client, as opposed to us */
        bool counted;                    /* against what the client may give up: h2_count_given_up() */
        struct verdict verdict;
        uint32_t generation;
        int error;
        const char *why;
        uint64_t since, bytes_in, bytes_out;
        uint64_t body_bytes; /* from the client */
        uint64_t moved;      /* loop_now() when something of it did */
        uint32_t late;       /* bytes of its body that came after we had answered */
};

enum { H2_CLIENT, H2_ORIGIN, H2_SIDES };

struct h2_side {
        struct h2_session *session;
        nghttp2_session *ng;
        struct stream *stream;    /* NULL: gone */
        struct pool_chunk *out;   /* frames on their way */
        struct h2_fields *fields; /* of the header block that is being received: never two at a time */
        size_t queued;            /* received here, not sent on */
        size_t owed;              /* of the connection's window: to be opened again when queued has shrunk */
        uint8_t index;
};

/* So many of something at once, so many a second in the long run. */
struct h2_allowance {
        uint64_t paid_until; /* loop_now() when all so far would be paid for */
};

struct h2_session {
        struct client client;
        struct authority target;
        char authority[AUTHORITY_TEXT_MAX]; /* as it is sent to the origin */
        struct synthetic_hold hold;
        struct h2_side side[H2_SIDES];
        struct addr addr;
        struct judged judged; /* the connection itself */
        struct host_bytes *host_bytes;
        struct link streams;
        size_t n_streams;
        size_t kept; /* of H2_KEPT_MAX */
        struct timer limit;
        struct timer patrol; /* looks after streams that stall */
        struct task later, destroy;
        struct h2_allowance resets, noise;
        const char *why; /* of spoilt */
        uint8_t spoilt;  /* enum reason */
        verdict_yes approved;
        bool secrets;  /* the origin has credentials: what was sent to it is wiped */
        bool used;     /* a request was taken: it is on record */
        bool in_head;  /* a header block of the client's has begun and is not whole */
        bool draining; /* the client was told to open no more streams here */
        bool running;  /* inside h2_session_run(): callbacks need not call it */
        bool progress; /* something moved that counts against the idle limit */
        bool closing;  /* the last words are being said */
        bool gone;
};

static inline const struct gateway_limits *h2_settings(const struct h2_session *session) {
        return &session->client.worker->limits;
}

/* h2_session.c */
void h2_session_run(struct h2_session *session);
void h2_session_end(struct h2_session *session, bool abort);
/* The client may open no more streams; those that are open go on. */
void h2_session_drain(struct h2_session *session, uint32_t code);
/* There are streams now: they are looked after. */
void h2_session_patrol(struct h2_session *session);
/* Takes n of at most `burst`, `per_second` of which come back each second. False: too much. */
bool h2_allow(struct h2_session *session, struct h2_allowance *allowance, uint64_t burst, uint64_t per_second);

/* h2_callbacks.c: what nghttp2 tells, for one side. 0 or -ENOMEM. */
int h2_side_open(struct h2_side *side);
/* What the client sent ends it early, once for each stream: with too many of them the connection ends. */
void h2_count_given_up(struct h2_stream *stream);

/* h2_fields.c */
struct h2_fields *h2_fields_new(size_t max);
void h2_fields_free(struct h2_fields *fields);
void h2_fields_clear(struct h2_fields *fields);
/* Keeps it, or sets too_large. */
void h2_fields_add(struct h2_fields *fields, struct str name, struct str value, bool sensitive);
static inline struct str h2_field_name(const struct h2_fields *h2_fields, size_t i) {
        return str_n(h2_fields->text.p + h2_fields->at[i].name, h2_fields->at[i].name_n);
}
static inline struct str h2_field_value(const struct h2_fields *h2_fields, size_t i) {
        return str_n(h2_fields->text.p + h2_fields->at[i].value, h2_fields->at[i].value_n);
}
/* The first of that name; p is NULL when it is not there. */
struct str h2_fields_find(const struct h2_fields *fields, const char *name);

/* What is not sent on. */
bool h2_field_ends_here(struct str name);

/* What is sent: at most this many with pseudo fields of our own. */
struct h2_nvs {
        size_t n;
        nghttp2_nv at[H2_FIELDS_MAX + 8];
};
void h2_nvs_add(struct h2_nvs *to, struct str name, struct str value, bool sensitive);
/* All that are no pseudo fields and do not end here. */
void h2_nvs_add_fields(struct h2_nvs *to, const struct h2_fields *fields);

/* h2_request.c: a head that is whole is judged and sent on, or answered. */
void h2_request_take(struct h2_stream *stream, bool ended);
/* By the policy of this moment; false when it was refused. */
bool h2_request_judge(struct h2_stream *stream, struct str method);
/* Sends what the client's side has in its fields, judged anew; or asks the vault first. */
void h2_request_send(struct h2_stream *stream);
/* Whether the origin is still there for it; false when it was reset. */
bool h2_request_can_leave(struct h2_stream *stream);
/* Answers by the stream's verdict, or for a request that is not as it must be. */
void h2_refuse(struct h2_stream *stream);
/* With an answer of this type and content; the reason is that of the verdict. */
void h2_refuse_as(struct h2_stream *stream, unsigned status, const char *type, struct str content);
void h2_refuse_rest(struct h2_stream *stream); /* of which a part has been sent */
void h2_refuse_bytes(struct h2_stream *stream, unsigned status, enum reason reason, const char *what);

/* h2_stream.c */
struct h2_stream *h2_stream_new(struct h2_session *session, int32_t id);
/* Records it and lets go of it, whatever its state. */
void h2_stream_end(struct h2_stream *stream);
/* Submits the request; 0 or a negative errno. */
int h2_stream_send(struct h2_stream *stream, const struct h2_nvs *head);
void h2_stream_answer(struct h2_stream *stream, const struct h2_nvs *head, struct str body);
void h2_stream_reset_client(struct h2_stream *stream, uint32_t code);
/* The origin failed it: answered, where nothing was said to the client yet, else reset. */
void h2_stream_fail(struct h2_stream *stream, enum reason reason, int error);
/* What the client sent of it since its head may not leave. Whatever came before that may be at the origin already. */
void h2_stream_cut(struct h2_stream *stream, enum reason reason, const char *why);
/* It stood still for too long. */
void h2_stream_expire(struct h2_stream *stream);
/* What this side sent may not be sent. */
void h2_stream_spoil(struct h2_stream *stream, unsigned side);
/* What comes from either side. */
void h2_stream_take_response(struct h2_stream *stream, bool ended);
void h2_stream_take_data(struct h2_flow *flow, const uint8_t *p, size_t n);
void h2_stream_take_trailers(struct h2_flow *flow);
void h2_stream_take_end(struct h2_flow *flow);
void h2_stream_closed(struct h2_stream *stream, unsigned side, uint32_t code);
/* The end of its response has left, or nobody takes its body any more: then the client need not send the rest. */
void h2_stream_settle(struct h2_stream *stream);
void h2_stream_record(struct h2_stream *stream);

/* h2_flow.c */
void h2_flow_init(struct h2_flow *flow, struct h2_stream *stream, unsigned from);
void h2_flow_done(struct h2_flow *h2_flow);
/* So many bytes have come for it, which are then added, now or later. */
void h2_flow_received(struct h2_flow *flow, size_t n);
/* So many of those have become others: the window that they came through is opened again. */
void h2_flow_used(struct h2_flow *flow, size_t n);
int h2_flow_add(struct h2_flow *flow, struct str bytes);
/* Nobody wants it any more: its bytes count as passed. */
void h2_flow_drop(struct h2_flow *flow);
/* Whole: an answer of ours, or a body that was kept. */
int h2_flow_own(struct h2_flow *flow, struct str bytes);
/* More has come, or its end: the far side goes on. */
void h2_flow_resume(struct h2_flow *flow);
nghttp2_data_provider h2_flow_provider(struct h2_flow *flow);
/* nghttp2 writes a DATA frame. */
int h2_flow_send(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source,
                 void *side);
