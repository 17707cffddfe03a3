/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The HTTP forward proxy: one session per client connection, and the idle connections to origins that sessions of one
 * worker share. Theory in http_session.c.
 */
#include "gateway/dns/synthetic.h"
#include "gateway/worker.h"

struct gate_call;
/* The call of a CONNECT is through, and the client was told so: takes both over. */
typedef void http_connected(const struct client *client, struct gate_call *call);

/* Absolute-form requests and CONNECT. Takes the client over, also when it fails (-ENOMEM: it is closed). */
int http_session_start(const struct client *client, http_connected *connected);
/* Plain HTTP that was captured on its way to `target`: origin-form requests whose Host must agree with it. Bytes that
 * were looked at are given back to the client's stream first. `hold`, when not empty, is released at the end. */
int http_session_start_bound(const struct client *client, const struct authority *target,
                             const struct synthetic_hold *hold);

/* HTTP inside TLS that was opened (gateway/intercept.h): client->stream is the TLS stream, requests must be for the
 * target. */
struct http_inside {
        const struct authority *target;
        struct synthetic_hold hold;
        struct stream
            *upstream;        /* to the origin, TLS, verified; taken. NULL: `spoilt` says why, or one is to be opened */
        struct addr addr;     /* where that leads; ADDR_NONE: not known */
        verdict_yes approved; /* a person said yes to the target */
        uint8_t spoilt;       /* enum reason, or REASON_NONE: what every request is answered with */
        const char *why;      /* of spoilt, for people: text that stays */
};
int http_session_start_inside(const struct client *client, const struct http_inside *inside);

/* Whether a connection to this origin, TLS and HTTP/1.1, rests in the pool. */
bool upstream_pool_has(struct upstream_pool *pool, const struct authority *target);
/* The API proxy (gateway/creds/apiproxy.h): plain HTTP from the client, TLS to the origin. */
int http_session_start_api(const struct client *client);

/* For worker_new() and worker_free(). */
int upstream_pool_new(struct worker *worker, struct upstream_pool **ret);
void upstream_pool_free(struct upstream_pool *pool);
void http_sessions_end(struct worker *worker);
