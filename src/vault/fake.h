/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stand-ins: text that looks like the secret to a client (the same beginning, length, separators and alphabet) and says
 * nothing about it.
 */
#include "base/digest.h"
#include "base/err.h"
#include "base/str.h"

enum { FAKE_RANDOM_MIN = 8 }; /* letters and digits that must be drawn, or there is no stand-in */

/* Where the characters come from: the kernel's random bytes, or a seed, which gives the same ones each time. */
struct fake_source {
        bool seeded;
        uint8_t seed[DIGEST_BYTES];
        uint8_t block[DIGEST_BYTES]; /* HMAC of the number of the block */
        uint64_t blocks;
        size_t used; /* bytes of this block */
};
#define FAKE_RANDOM ((struct fake_source){ 0 })
/* `label` makes several of one seed: the part of a credential. */
void fake_source_seed(struct fake_source *source, const uint8_t seed[static DIGEST_BYTES], uint32_t label);

/* A number below n (1 to 256), each as likely as the others. */
unsigned fake_draw(struct fake_source *source, unsigned n);

/* real.n bytes into ret. `prefix` is the provider's, kept if the secret begins with it. -EINVAL when too little of the
 * secret could be replaced; the message never holds any of it. */
int fake_make(struct fake_source *source, struct str real, struct str prefix, char *ret, struct err *err);
/* Whether text could stand for this secret without giving it away: neither it nor what follows its prefix is in it. */
bool fake_is_apart(struct str fake, struct str real, struct str prefix);
