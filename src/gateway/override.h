/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Headers by which a client asks the origin to handle another request than the one in the request line:
 * X-HTTP-Method-Override, X-Original-URL and their kin. A rule about methods or paths judges the request line, so where
 * a host has such rules these headers are refused. Other hosts get them as they are.
 *
 * Not seen here: what a body says (Rails, Symfony and others read "_method" from a form), and "_method" in a query.
 */
#include "base/str.h"
#include "policy/judge/verdict.h"

struct override {
        struct str name; /* as people write it */
        uint8_t reason;  /* REASON_METHOD or REASON_PATH: what it changes */
};

/* The override that a header of this name is, or NULL. Any spelling that some server takes for the name counts: its
 * case does not matter, nor what stands between its words, since CGI makes '_' of it. */
const struct override *override_find(struct str name);

#define OVERRIDE_WHY "a header asks the origin for another method, path or host than the one that was judged"
