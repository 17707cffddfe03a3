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

static inline uint64_t rotate(uint64_t x, int by) {
        return (x << by) | (x >> (64 - by));
}

struct sip {
        uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *s) {
        s->v0 += s->v1;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t n) {
        const unsigned char *p = bytes;
        struct sip s = { key->a ^ 0x736f6d6570736575ULL, key->b ^ 0x646f72616e646f6dULL, key->a ^ 0x6c7967656e657261ULL,
                         key->b ^ 0x7465646279746573ULL };
        size_t left = n;
        for (; left >= 8; left -= 8, p += 8) {
                uint64_t word;
                memcpy(&word, p, 8);
                s.v3 ^= word;
                sip_round(&s);
                s.v0 ^= word;
        }
        uint64_t last = (uint64_t)n << 56;
        if (left)
                memcpy(&last, p, left); /* little end first; the length byte at the top is kept */
        s.v3 ^= last;
        sip_round(&s);
        s.v0 ^= last;
        s.v2 ^= 0xff;
        sip_round(&s);
        sip_round(&s);
        sip_round(&s);
        return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
