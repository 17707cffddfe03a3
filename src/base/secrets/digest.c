/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/digest.h"

void digest_sha256(struct str data, unsigned char ret[static DIGEST_BYTES]) {
        digest_sha256_pair(data, STR(""), ret);
}

void digest_hex(const unsigned char digest[static DIGEST_BYTES], char ret[static DIGEST_HEX_MAX]) {
        static const char digits[] = "0123456789abcdef";
        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                ret[2 * i] = digits[digest[i] >> 4];
                ret[2 * i + 1] = digits[digest[i] & 15];
        }
        ret[2 * DIGEST_BYTES] = '\0';
}
