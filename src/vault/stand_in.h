/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stand-ins: text that looks like the secret to a client (the same beginning, length, separators and alphabet) and says
 * nothing about it.
 */
#include "base/err.h"
#include "base/secrets/digest.h"
#include "base/str.h"

enum { STAND_IN_RANDOM_MIN = 8 }; /* letters and digits that must be drawn, or there is no stand-in */

/* Where the characters come from: the kernel's random bytes, or a seed, which gives the same ones each time. */
struct stand_in_source {
        bool seeded;
        uint8_t seed[DIGEST_BYTES];
        uint8_t block[DIGEST_BYTES]; /* HMAC of the number of the block */
        uint64_t blocks;
        size_t used; /* bytes of this block */
};
#define STAND_IN_RANDOM ((struct stand_in_source){ 0 })
/* `label` makes several of one seed: the part of a credential. */
void stand_in_source_seed(struct stand_in_source *source, const uint8_t seed[static DIGEST_BYTES], uint32_t label);

/* A number below n (1 to 256), each as likely as the others. */
unsigned stand_in_draw(struct stand_in_source *source, unsigned n);

/* real.n bytes into ret. `prefix` is the provider's, kept if the secret begins with it. -EINVAL when too little of the
 * secret could be replaced; the message never holds any of it. */
int stand_in_make(struct stand_in_source *source, struct str real, struct str prefix, char *ret, struct err *err);
/* Whether text could stand for this secret without giving it away: neither it nor what follows its prefix is in it. */
bool stand_in_is_apart(struct str stand_in, struct str real, struct str prefix);
