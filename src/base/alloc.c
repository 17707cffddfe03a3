/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void *alloc_zeroed(size_t n) {
        void *p = malloc(n);
        __asm__("" : "+r"(p)); /* or the compiler would make the two calls one, of calloc() */
        return p ? memset(p, 0, n) : NULL;
}
