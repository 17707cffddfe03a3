/* SPDX-License-Identifier: Apache-2.0 */
/* By the system's own library, which every program has. */
#include "base/secrets/digest.h"

#include <assert.h>
#include <CommonCrypto/CommonDigest.h>
#include <string.h>

static_assert(sizeof(CC_SHA256_CTX) <= sizeof(struct digest), "the library's state fits");
static_assert(_Alignof(CC_SHA256_CTX) <= _Alignof(struct digest), "and may stand there");

enum { PIECE_MAX = 1 << 30 /* the library counts in 32 bits */, BLOCK_BYTES = 64 };

static CC_SHA256_CTX *context_of(struct digest *digest) {
        return (CC_SHA256_CTX *)digest->state;
}

void digest_begin(struct digest *digest) {
        CC_SHA256_Init(context_of(digest));
}

void digest_add(struct digest *digest, struct str data) {
        while (data.n > 0) {
                size_t n = data.n < PIECE_MAX ? data.n : PIECE_MAX;
                CC_SHA256_Update(context_of(digest), data.p, (CC_LONG)n);
                data = str_skip(data, n);
        }
}

void digest_end(struct digest *digest, unsigned char ret[static DIGEST_BYTES]) {
        CC_SHA256_Final(ret, context_of(digest));
        digest_begin(digest);
}

void digest_sha256_pair(struct str first, struct str second, unsigned char ret[static DIGEST_BYTES]) {
        struct digest digest = { 0 };
        digest_begin(&digest);
        digest_add(&digest, first);
        digest_add(&digest, second);
        digest_end(&digest, ret);
}

void digest_sha1(const struct str *pieces, size_t n, unsigned char ret[static DIGEST_SHA1_BYTES]) {
        CC_SHA1_CTX context;
        CC_SHA1_Init(&context);
        for (size_t i = 0; i < n; i++)
                CC_SHA1_Update(&context, pieces[i].p, (CC_LONG)pieces[i].n);
        CC_SHA1_Final(ret, &context);
}

/* The key, filled with zeros or made shorter by its digest, over one half of the construction. */
static void hmac_half(const unsigned char key[static BLOCK_BYTES], unsigned char pad, struct str data,
                      unsigned char ret[static DIGEST_BYTES]) {
        struct digest digest = { 0 };
        unsigned char block[BLOCK_BYTES];

        for (size_t i = 0; i < BLOCK_BYTES; i++)
                block[i] = key[i] ^ pad;
        digest_begin(&digest);
        digest_add(&digest, str_n(block, sizeof block));
        digest_add(&digest, data);
        digest_end(&digest, ret);
        explicit_bzero(block, sizeof block);
}

/* RFC 2104; the header of the library's own is not among those that are at hand. */
void digest_hmac(struct str key, struct str data, unsigned char ret[static DIGEST_BYTES]) {
        unsigned char block[BLOCK_BYTES] = { 0 }, inner[DIGEST_BYTES];

        if (key.n > BLOCK_BYTES)
                digest_sha256_pair(key, STR(""), block);
        else if (key.n > 0)
                memcpy(block, key.p, key.n);

        hmac_half(block, 0x36, data, inner);
        hmac_half(block, 0x5c, str_n(inner, sizeof inner), ret);
        explicit_bzero(block, sizeof block);
        explicit_bzero(inner, sizeof inner);
}
