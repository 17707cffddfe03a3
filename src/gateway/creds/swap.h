/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One request to a host with credentials. It joins inject.c (which stand-ins to replace), the vault (their values) and
 * scrub.c (secrets in responses). The same for HTTP/1 and HTTP/2.
 *
 *     inject_judge()   of the request as it came: PASS or SWAP
 *     swap_judge()     of the request as it will leave: where what is to be replaced stands in it
 *     swap_compose()   until it returns 0: every value of the host is here, swap->words has them, and the output is the
 *                      request as it will leave, right before it does: a value that changed meanwhile counts
 *
 * Every response of such a host is searched for all its credentials, even if the request had none: a response may show
 * a secret of another request, also after it was replaced (gateway/creds/old_secrets.h).
 */
#include "gateway/creds/inject.h"
#include "gateway/creds/scrub.h"
#include "gateway/creds/sigv4_stream.h"
#include "gateway/creds/vault_client.h"
#include "gateway/worker.h"

#define SWAP_HEADERS_MAX 160

struct swap {
        /* set by the caller */
        struct worker *worker;
        const struct authority *to;
        void (*done)(struct swap *s); /* after -EINPROGRESS: judge and compose again */

        struct inject_plan plan;    /* of the request as it will leave */
        struct buf names;           /* of the mappings that it has, for the record */
        struct sigv4_stream stream; /* signs the request's body, while `streaming` */
        bool streaming;

        struct scrub_words *words;    /* NULL: nothing to look for */
        bool telling;                 /* one of them is a secret by itself, so what cannot be searched is refused */
        struct credential_set set;    /* mappings of the host */
        struct credential_set absent; /* those without a value now; they are not in the request either */
        struct vault_call call;
        uint32_t asked; /* mapping that the vault was asked for */
        unsigned n_asked;
        int failed;
        bool swapped;     /* by the last swap_compose() */
        uint32_t mapping; /* the first that was, with the serial of its value */
        uint64_t serial;
};

/* Whether requests to this target go through here at all. */
bool swap_is_wanted(const struct worker *worker, const struct authority *to);
/* plan: of the request as it came. 0 or -ENOMEM; then swap_done() in any case. */
int swap_init(struct swap *swap, struct worker *worker, const struct authority *to, const struct inject_plan *plan,
              void (*done)(struct swap *swap));
void swap_done(struct swap *swap);

/* A body that must be here before its head can be signed. */
static inline bool swap_hashes_body(const struct inject_plan *plan) {
        return plan->n_swaps > 0 && plan->swaps[0].slot == SLOT_SIGV4 && plan->sigv4.payload == PAYLOAD_BODY;
}
/* One that is signed chunk by chunk, while it passes. */
static inline bool swap_signs_chunks(const struct inject_plan *plan) {
        return plan->n_swaps > 0 && plan->swaps[0].slot == SLOT_SIGV4 &&
               (plan->sigv4.payload == PAYLOAD_CHUNKS || plan->sigv4.payload == PAYLOAD_CHUNKS_TRAILER);
}

/* For people, of an error of the functions below: a sentence, or for what is refused for good the rest of one. */
const char *swap_error_text(int error);
/* REASON_CREDENTIAL: it is refused for good; REASON_VAULT: it may work later. */
enum reason swap_error_reason(int error);
/* Whether the request is too large with its credential: 431. */
static inline bool swap_is_too_large(int error) {
        return error == -EMSGSIZE || error == -E2BIG;
}

struct swap_output {
        struct buf text;   /* holds secrets */
        struct str target; /* p is NULL: as it was */
        size_t n_headers;
        struct header_view headers[SWAP_HEADERS_MAX]; /* all that leave, in order, but without framing ones */
        char seed[SIGV4_SIGNATURE_HEX];               /* of a body that is signed in chunks */
};
/* What is known of the request's body when its head is written. */
struct swap_body {
        struct str kept; /* all of it, where it was kept */
        bool keeps;
        bool follows; /* it is still to come */
};
/* Fills swap->plan. Headers that end here are left out by the caller, before. 0, or -EACCES: inject_problem_text(). */
int swap_judge(struct swap *swap, const struct request_view *view);
/* The view that was judged, with the values of this moment. 0; -EINPROGRESS: the vault is asked; why there is no value:
 * -EPIPE, -ETIMEDOUT (no vault), -ENOKEY, -EACCES, -EKEYREVOKED; -EMSGSIZE (too large), -EILSEQ (the secret has bytes
 * that cannot stand there), -ENOMEM. Whatever it returns, swap_output_done(). */
int swap_compose(struct swap *swap, const struct request_view *view, const struct swap_body *body,
                 struct swap_output *out);
void swap_output_done(struct swap_output *out);
/* A value that was here has changed: asks for the new one. -EINPROGRESS, or why there is none. */
int swap_again(struct swap *swap);

/* scrub_feed() for a body that somebody reads: `patience` runs while bytes are delayed, and its end calls for
 * scrub_release(). */
void swap_search(struct scrub *scrub, struct timer *patience, char *bytes, size_t n, struct str *ret_before,
                 struct str *ret_now);

/* Looks at the origin's response: if the origin rejects the credential, the vault is notified. */
void swap_saw_status(const struct swap *swap, unsigned status);

void swap_cache_free(struct worker *worker);
