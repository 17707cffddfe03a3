/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Removes secrets from responses: every occurrence of a real value (as it is, inside base64 at any alignment,
 * percent-encoded in whole or in part) is replaced by its stand-in, byte for byte. Lengths and framing do not change.
 * Of a stream, only bytes that may be the beginning of a secret are delayed. Theory in scrub.c.
 */
#include "base/clock.h"
#include "base/secrets/needles.h"

struct scrub_pair {
        struct str real, stand_in;
};

/* What to look for, made once and used for many responses. Counted: each user has a reference. */
struct scrub_words;
/* -ENOMEM, -EINVAL (an empty one), -E2BIG. */
int scrub_words_new(const struct scrub_pair *pairs, size_t n, struct scrub_words **ret);
struct scrub_words *scrub_words_ref(struct scrub_words *words);
void scrub_words_unref(struct scrub_words *words); /* wipes at the last; accepts NULL */

/* A text that is there whole: a header's value. In place. True when something was replaced; on -ENOMEM the whole text
 * is made unreadable, and that counts as replaced. */
bool scrub_text(const struct scrub_words *words, char *bytes, size_t n);

/* One body. Zeroed: nothing to do, nothing to free. */
struct scrub {
        struct scrub_words *words;
        struct needle_scan scan;
        char *held, *spare; /* bytes that may be the beginning of a secret; what was released last lies in the other */
        size_t n_held;
        bool found;
};

int scrub_init(struct scrub *scrub, struct scrub_words *words); /* takes a reference; 0 or -ENOMEM */
void scrub_done(struct scrub *scrub);
static inline bool scrub_is_on(const struct scrub *scrub) {
        return scrub->words != NULL;
}
/* The next bytes of the body, changed in place where a secret is. *ret_before, then *ret_now, are to be passed on; both
 * are valid until the next call. */
void scrub_feed(struct scrub *scrub, char *bytes, size_t n, struct str *ret_before, struct str *ret_now);
/* Nothing has come for a while: returns the delayed bytes if they reveal too little to matter, or nothing. A client may
 * be waiting for them. If they were the beginning of a secret, its rest is still replaced. */
struct str scrub_release(struct scrub *scrub);
#define SCRUB_RELEASE_NS (50 * NS_PER_MS) /* that while */
/* No more will come: what is still held. */
struct str scrub_end(struct scrub *scrub);
