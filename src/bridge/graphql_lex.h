/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tokens of a GraphQL document, for bridge/graphql.c. */
#include "base/str.h"

enum graphql_token_kind {
        TOKEN_END,
        TOKEN_NAME,
        TOKEN_NUMBER,
        TOKEN_STRING,
        TOKEN_SPREAD, /* ... */
        TOKEN_MARK,   /* one of ! $ ( ) : = @ [ ] { } */
        TOKEN_BAD,
};

struct graphql_token {
        enum graphql_token_kind kind;
        char mark;
        struct str text;
};

/* Takes one token off the front. */
struct graphql_token graphql_lex(struct str *left);
