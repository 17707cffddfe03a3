/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *p, size_t n) {
        char *at = p;

        while (n > 0) {
                ssize_t got = getrandom(at, n, 0);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        abort();

                at += got;
                n -= (size_t)got;
        }
}

void random_id(char *ret, size_t length_with_nul) {
        static const char alphabet[32] = "abcdefghjkmnpqrstuvwxyz023456789";
        if (length_with_nul == 0)
                return;
        random_bytes(ret, length_with_nul - 1);
        for (size_t i = 0; i + 1 < length_with_nul; i++)
                ret[i] = alphabet[(unsigned char)ret[i] % sizeof alphabet];
        ret[length_with_nul - 1] = '\0';
}
