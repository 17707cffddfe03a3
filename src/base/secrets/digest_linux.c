/* SPDX-License-Identifier: Apache-2.0 */
/* By nettle. */
#include "base/secrets/digest.h"

#include <assert.h>
#include <nettle/hmac.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>

static_assert(sizeof(struct sha256_ctx) <= sizeof(struct digest), "the library's state fits");
static_assert(_Alignof(struct sha256_ctx) <= _Alignof(struct digest), "and may stand there");

void digest_sha256_pair(struct str first, struct str second, unsigned char ret[static DIGEST_BYTES]) {
        struct sha256_ctx context;
        sha256_init(&context);
        sha256_update(&context, first.n, (const uint8_t *)first.p);
        sha256_update(&context, second.n, (const uint8_t *)second.p);
        sha256_digest(&context, DIGEST_BYTES, ret);
}

void digest_hmac(struct str key, struct str data, unsigned char ret[static DIGEST_BYTES]) {
        struct hmac_sha256_ctx context;
        hmac_sha256_set_key(&context, key.n, (const uint8_t *)key.p);
        hmac_sha256_update(&context, data.n, (const uint8_t *)data.p);
        hmac_sha256_digest(&context, DIGEST_BYTES, ret);
        explicit_bzero(&context, sizeof context);
}

void digest_begin(struct digest *digest) {
        sha256_init((struct sha256_ctx *)digest->state);
}

void digest_add(struct digest *digest, struct str data) {
        sha256_update((struct sha256_ctx *)digest->state, data.n, (const uint8_t *)data.p);
}

void digest_end(struct digest *digest, unsigned char ret[static DIGEST_BYTES]) {
        sha256_digest((struct sha256_ctx *)digest->state, DIGEST_BYTES, ret);
}

void digest_sha1(const struct str *pieces, size_t n, unsigned char ret[static DIGEST_SHA1_BYTES]) {
        struct sha1_ctx context;
        sha1_init(&context);
        for (size_t i = 0; i < n; i++)
                sha1_update(&context, pieces[i].n, (const uint8_t *)pieces[i].p);
        sha1_digest(&context, DIGEST_SHA1_BYTES, ret);
}
