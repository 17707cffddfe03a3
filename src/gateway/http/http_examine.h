/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Requests of git and GraphQL in an HTTP/1 session, for the http_*.c files only. Theory in http_examine.c. */
#include "gateway/examine.h"
#include "gateway/http/http_internal.h"

#define HTTP_DRAIN_MAX (UINT64_C(1) << 30) /* of a refused push: what git still sends before it reads the answer */

struct http_examine {
        struct examine *examine;
        struct http_session *session;
        struct gate_call hold; /* while a person is asked */
        struct buf raw;        /* what was read of the body, with its framing: given back before the request leaves */
        struct http_body seen; /* how far the body was read */
        uint64_t drained;
        bool expects; /* the client waits for 100 Continue */
        bool holding, refused;
        bool behind; /* `raw` has more than the body */
};

/* The verdict on a request whose target is allowed; what it needs is kept in s->exchange.examine. */
struct verdict http_examine_begin(struct http_session *session, const struct http1_request *request,
                                  struct verdict granted);
/* Before it leaves. False: not now: its body is being read, a person is asked, or it was refused. */
bool http_examine_pass(struct http_session *session);
/* HTTP_EXAMINING and HTTP_DRAINING. */
bool http_examine_step(struct http_session *session);
bool http_examine_drain_step(struct http_session *session);
/* A refusal in git's own form is under way; false: there is none, so that it is refused as any other. */
bool http_examine_refuse(struct http_session *session);
/* What git's request it is; NULL: none. */
static inline const struct git_http *http_examine_git(const struct http_session *session) {
        bool git = session->exchange.examine && session->exchange.examine->examine->kind != EXAMINE_GRAPHQL;
        return git ? &session->exchange.examine->examine->git : NULL;
}
