/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

void random_id(char *ret, size_t length_with_nul) {
        static const char alphabet[32] = "abcdefghjkmnpqrstuvwxyz023456789";
        if (length_with_nul == 0)
                return;
        random_bytes(ret, length_with_nul - 1);
        for (size_t i = 0; i + 1 < length_with_nul; i++)
                ret[i] = alphabet[(unsigned char)ret[i] % sizeof alphabet];
        ret[length_with_nul - 1] = '\0';
}
