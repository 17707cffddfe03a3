/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *alloc_zeroed(size_t n) {
        void *p = malloc(n);
        __asm__("" : "+r"(p)); /* or the compiler would make the two calls one, of calloc() */
        if (p)
                return memset(p, 0, n);

        return NULL;
}

enum { HEAP_STEP = 512 << 10, HEAP_KEPT = 2 << 20, HEAP_LARGEST = 1 << 20 };

/* The last: once one of them is set, glibc no longer learns which sizes come and go, and would map each large one. */
void alloc_settle(void) {
        mallopt(M_TOP_PAD, HEAP_STEP);
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
        mallopt(M_MMAP_THRESHOLD, HEAP_LARGEST);
}

void alloc_trim(void) {
        malloc_trim(0);
}

size_t alloc_size(const void *p) {
        return malloc_usable_size((void *)p);
}
