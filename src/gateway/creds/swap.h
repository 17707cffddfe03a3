/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One request to a host that has credentials, between inject.c (what is to be replaced), the vault (by what) and
 * scrub.c (what must not come back). The same for HTTP/1 and HTTP/2.
 *
 *     inject_judge() says PASS or SWAP
 *     swap_ready()     until it returns 0: every value of the host is here, and s->words has them
 *     swap_rewrite()   the request as it will leave, right before it does: a value that changed meanwhile counts
 *
 * Every response of such a host is searched for all its credentials, whether the request had one or not: what one
 * request carried, the answer to another may show, also after the value was replaced (gateway/creds/old_secrets.h).
 */
#include "gateway/creds/inject.h"
#include "gateway/creds/scrub.h"
#include "gateway/creds/vault_client.h"
#include "gateway/worker.h"

#define SWAP_HEADERS_MAX 160

struct swap {
        /* set by the caller */
        struct worker *worker;
        const struct authority *to;
        void (*done)(struct swap *s); /* after -EINPROGRESS: call swap_ready() again */

        struct scrub_words *words;    /* NULL: nothing to look for */
        bool telling;                 /* one of them is a secret by itself, so what cannot be searched is refused */
        struct credential_set set;    /* mappings of the host */
        struct credential_set absent; /* those without a value now; they are not in the request either */
        struct vault_call call;
        uint32_t asked; /* mapping that the vault was asked for */
        unsigned n_asked;
        int failed;
        bool swapped;     /* by the last swap_rewrite() */
        uint32_t mapping; /* the first that was, with the serial of its value */
        uint64_t serial;
};

/* Whether requests to this target go through here at all. */
bool swap_is_wanted(const struct worker *worker, const struct authority *to);
/* set: the mappings of the target, as inject_judge() has found them. */
void swap_init(struct swap *s, struct worker *worker, const struct authority *to, const struct credential_set *set,
               void (*done)(struct swap *s));
void swap_done(struct swap *s);

/* 0; -EINPROGRESS: the vault is asked; or why there is no value: -EPIPE, -ETIMEDOUT (no vault), -ENOKEY, -EACCES. */
int swap_ready(struct swap *swap, const struct inject_plan *plan);
/* For people, of an error of swap_ready() or swap_rewrite(): a sentence, or for what is refused for good the rest of
 * one.
 */
const char *swap_error_text(int error);

struct swap_output {
        struct buf text;   /* holds secrets */
        struct str target; /* p is NULL: as it was */
        size_t n_headers;
        struct header_view headers[SWAP_HEADERS_MAX]; /* all that leave, in order, but without framing ones */
        char seed[SIGV4_SIGNATURE_HEX];               /* of a body that is signed in chunks */
};
/* Headers that end here are left out by the caller, before. 0, -EMSGSIZE (too large), -EILSEQ (the secret has bytes
 * that cannot stand there), -ENOMEM; or what swap_ready() says: a value changed since. */
int swap_rewrite(struct swap *swap, const struct request_view *view, const struct inject_plan *plan,
                 struct str body_hash, struct swap_output *out);
void swap_output_done(struct swap_output *out);
/* The key behind the seed of a signed request; false when it has gone: swap_again(). */
bool swap_signing_key(struct swap *swap, const struct inject_plan *plan, struct sigv4_key *ret);
/* A value that was here has changed: asks for the new one. -EINPROGRESS, or why there is none. */
int swap_again(struct swap *swap, const struct inject_plan *plan);

/* scrub_feed() for a body that somebody reads: `patience` runs while something is held back, and its end calls for
 * scrub_release(). */
void swap_search(struct scrub *scrub, struct timer *patience, char *bytes, size_t n, struct str *ret_before,
                 struct str *ret_now);

/* How the origin answered: when it does not know the credential, the vault is told. */
void swap_saw_status(const struct swap *swap, unsigned status);

void swap_cache_free(struct worker *w);
