/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A provider's token endpoint: the sandbox sends the stand-in of a refresh token in the body of a POST, and the real
 * one goes upstream; the response brings new tokens, and the sandbox gets stand-ins. Pure. Theory in renew.c.
 */
#include "gateway/creds/inject.h"

enum { RENEW_REQUEST_MAX = 65536, RENEW_ANSWER_MAX = 262144 };

/* A mapping whose endpoint this request goes to: the first of the host's that has a slot in a body there. NULL: none.
 */
const struct credential_mapping *renew_leader(const struct credentials *credentials, const struct credential_set *set,
                                              struct str method, struct str target);
/* Whether this host has a token endpoint at all: it is spoken to in HTTP/1.1. */
bool renew_has_endpoint(const struct credentials *credentials, const struct authority *to);

/* A request to a token endpoint, once it is whole. */
struct renew_request {
        struct str body;
        const struct request_view *view; /* its head; NULL: it has none */
};

/* Adds the stand-ins in the body to the plan; INJECT_REFUSE: one is where it may not be, or the request asks for
 * something that is not renewed here, or could be read as another one. *leader: on return the mapping whose stand-in
 * was sent, if one was. *ret_fresh: not a refresh of the user's sign-in, so the response does not go into the user's
 * file. */
enum inject_result renew_judge(const struct credentials *credentials, const struct credential_mapping **leader,
                               const struct renew_request *request, struct inject_plan *plan, bool *ret_fresh);
/* The body as it leaves: values[i] for plan->swaps[i]. The buffer then holds a secret. */
int renew_body(const struct inject_plan *plan, struct str body, const struct str *values, struct buf *out);

/* The answer's tokens as VAULT_KEEP has them ("MEMBER VALUE" lines), and when they end. -EBADMSG: not JSON;
 * -EMSGSIZE: too large; -ENOENT: it has none. The buffer holds secrets. */
int renew_read(const struct credentials *credentials, const struct credential_mapping *leader, struct str answer,
               struct buf *ret_lines, uint64_t *ret_expires_in);
/* Whether the text holds one of those tokens. */
bool renew_holds(struct str lines, struct str text);
/* The answer as the sandbox gets it. -EPERM: something else in it looks like a secret, or a token is there twice. */
int renew_write(const struct credentials *credentials, const struct credential_mapping *leader, struct str answer,
                struct str lines, struct buf *out);
