/* SPDX-License-Identifier: Apache-2.0 */
/* The side of macOS of what base has for Linux in random.c and secret.c. Built by scripts/macos alone. */
#include "base/os_darwin.h"

#include "base/random.h"
#include "base/secret.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void *reallocarray(void *memory, size_t n, size_t size) {
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes)) {
                errno = ENOMEM;
                return NULL;
        }
        return realloc(memory, bytes);
}

/* At most 256 bytes at a time; it fails for larger pieces and for nothing else. */
void random_bytes(void *to, size_t n) {
        for (size_t done = 0; done < n;) {
                size_t piece = n - done < 256 ? n - done : 256;

                if (getentropy((char *)to + done, piece) != 0)
                        abort();
                done += piece;
        }
}

/* The barrier keeps the compiler from leaving it out. */
void secret_wipe(void *memory, size_t n) {
        memset(memory, 0, n);
        __asm__ volatile("" : : "r"(memory) : "memory");
}
