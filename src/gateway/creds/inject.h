/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stand-ins in requests. One in its own slot, on the way to its own host, over TLS, is replaced by the real secret; one
 * anywhere else that we can see refuses the request. Pure, and the same for HTTP/1 and HTTP/2: a request is its target
 * and a list of headers. Theory in inject.c.
 *
 *     inject_judge(table, target host, request, &plan)
 *       INJECT_PASS     no stand-in in sight, send it as it is
 *       INJECT_REFUSE   inject_problem_text(plan.problem) says why; 403
 *       INJECT_SWAP     ask the vault for the value of each plan.swaps[].mapping (or for a signing key), then
 *                       inject_header() for each header and inject_target()
 */
#include "gateway/creds/sigv4.h"
#include "ipc/credentials.h"

#define INJECT_SWAPS_MAX 4
#define INJECT_IN_TARGET VIEW_NONE
#define INJECT_IN_BODY (VIEW_NONE - 1) /* gateway/creds/renew.h */

enum inject_result { INJECT_PASS, INJECT_SWAP, INJECT_REFUSE };

enum inject_problem {
        INJECT_NO_PROBLEM,
        INJECT_PLAIN,      /* in the clear */
        INJECT_WRONG_HOST, /* not one of its hosts */
        INJECT_WRONG_SLOT, /* its host, another place in the request */
        INJECT_TWICE,      /* two Authorization headers, or its slot is there twice */
        INJECT_TOO_MANY,   /* more than INJECT_SWAPS_MAX */
        INJECT_SIGNATURE,  /* an AWS signature that cannot be made anew; plan.sigv4.problem says why */
        INJECT_ROTATED,    /* a stand-in of before a rotation: nothing would be put in its place */
        INJECT_GRANT,      /* at a token endpoint: not a body that can be read, or not a renewal */
        INJECT_PROBLEMS
};

struct inject_swap {
        uint32_t mapping;
        uint32_t header; /* index, or INJECT_IN_TARGET */
        uint8_t slot;    /* enum credential_slot_kind */
        size_t at, n;    /* what is replaced: of the header's value, of the decoded Basic credentials, of the target */
};

struct inject_plan {
        uint8_t problem;           /* enum inject_problem */
        uint32_t culprit;          /* mapping that the problem is about, or UINT32_MAX */
        struct credential_set set; /* mappings of the host */
        size_t n_swaps;            /* in the order of their places */
        struct inject_swap swaps[INJECT_SWAPS_MAX];
        struct sigv4 sigv4; /* when swaps[0].slot is SLOT_SIGV4, which then is the only one */
};

enum inject_result inject_judge(const struct credentials *credentials, const struct authority *to,
                                const struct request_view *view, struct inject_plan *ret);
/* For people and agents: what was wrong with it. */
#define INJECT_IN_TRAILERS "the stand-in of a credential is in the trailers, where none is replaced"
const char *inject_problem_text(const struct inject_plan *plan);

/* The new value of a header, or of the target, appended; values[i] is the secret for swaps[i]. 1: written, 0: nothing
 * in it changes, -EMSGSIZE: too long for the buffer, -EILSEQ: the secret has bytes that cannot stand there. The buffer
 * then holds a secret: its owner must wipe it. */
int inject_header(const struct inject_plan *plan, const struct request_view *view, size_t header,
                  const struct str *values, struct buf *out);
int inject_target(const struct inject_plan *plan, const struct request_view *view, const struct str *values,
                  struct buf *out);

/* Names of the mappings that are swapped, separated by commas, for the record. */
int inject_names(const struct inject_plan *plan, const struct credentials *credentials, struct buf *out);
