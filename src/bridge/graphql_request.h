/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A GraphQL request over HTTP: where its document is, and what chooses the operation. POST with one JSON object, or GET
 * with parameters, and nothing of both at once: servers differ in which they take. Batches (lists), persisted queries,
 * other members, other content types (application/graphql, multipart) and content codings are refused.
 */
#include "bridge/graphql.h"

enum { GRAPHQL_BODY_MAX = 256 << 10 };

struct graphql_request {
        struct str method;
        struct str query; /* behind '?', as it will be sent; empty: none */
        struct str content_type;
        bool coded; /* it has a Content-Encoding */
        struct str body;
};

struct graphql_call {
        struct graphql graphql;
        struct buf document, operation; /* what graphql's names point into */
};

/* 0; -EBADMSG: ret->graphql.problem says why; -ENOMEM. */
int graphql_request_read(const struct graphql_request *request, struct graphql_call *ret);
void graphql_call_done(struct graphql_call *call);
