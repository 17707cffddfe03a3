/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/random.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");

static struct hash_key process_key;
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void make_process_key(void) {
        random_bytes(&process_key, sizeof process_key);
}

const struct hash_key *hash_seed(void) {
        pthread_once(&process_key_once, make_process_key);
        return &process_key;
}

static inline uint64_t hash_rotate(uint64_t x, int by) {
        return (x << by) | (x >> (64 - by));
}

struct sip {
        uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *sip) {
        sip->v0 += sip->v1;
        sip->v1 = hash_rotate(sip->v1, 13) ^ sip->v0;
        sip->v0 = hash_rotate(sip->v0, 32);
        sip->v2 += sip->v3;
        sip->v3 = hash_rotate(sip->v3, 16) ^ sip->v2;
        sip->v0 += sip->v3;
        sip->v3 = hash_rotate(sip->v3, 21) ^ sip->v0;
        sip->v2 += sip->v1;
        sip->v1 = hash_rotate(sip->v1, 17) ^ sip->v2;
        sip->v2 = hash_rotate(sip->v2, 32);
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t n) {
        const unsigned char *p = bytes;
        struct sip sip = { key->a ^ 0x736f6d6570736575ULL, key->b ^ 0x646f72616e646f6dULL,
                           key->a ^ 0x6c7967656e657261ULL, key->b ^ 0x7465646279746573ULL };
        size_t left = n;
        for (; left >= 8; left -= 8, p += 8) {
                uint64_t word;

                memcpy(&word, p, 8);
                sip.v3 ^= word;
                sip_round(&sip);
                sip.v0 ^= word;
        }

        uint64_t last = (uint64_t)n << 56;
        if (left)
                memcpy(&last, p, left); /* little end first; the length byte at the top is kept */

        sip.v3 ^= last;
        sip_round(&sip);
        sip.v0 ^= last;
        sip.v2 ^= 0xff;
        sip_round(&sip);
        sip_round(&sip);
        sip_round(&sip);

        return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}
