/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * GraphQL documents (the executable part of the specification of October 2021), read as strictly as a server reads them
 * or more so: which operation will run, and which fields of the root it asks for. Aliases do not matter, fragments
 * count wherever they are spread at the root, whatever type they say they are for. No schema is known here, so nothing
 * below the root is judged.
 *
 * Refused, beside what is no GraphQL: subscriptions, definitions of types, directives on operations, directives at the
 * root other than @include and @skip, several operations without a name to choose by, names that are there twice, more
 * than the limits below, and block strings with quotes or backslashes in them, which older parsers end elsewhere.
 */
#include "base/buf.h"
#include "base/vec.h"

enum { GRAPHQL_DOCUMENT_MAX = 64 << 10, GRAPHQL_DEPTH_MAX = 32, GRAPHQL_ROOT_MAX = 256, GRAPHQL_DEFINITIONS_MAX = 64 };

struct graphql {
        bool mutation;          /* else a query */
        VEC(struct str) fields; /* at the root, in the document's bytes; at least one */
        const char *problem;    /* with -EBADMSG: for people, text that stays */
};

/* operation: the name that the request chooses by; p NULL: none. 0; -EBADMSG; -ENOMEM. */
int graphql_read(struct str document, struct str operation, struct graphql *ret);
void graphql_done(struct graphql *graphql);
