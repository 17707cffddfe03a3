/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/arena.h"

#include <stdalign.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 16384 };

struct arena_block {
        struct arena_block *next;
        size_t size;
        alignas(16) char bytes[];
};

void arena_done(struct arena *a) {
        for (struct arena_block *b = a->blocks; b;) {
                struct arena_block *next = b->next;
                free(b);
                b = next;
        }
        *a = (struct arena){ .max = a->max };
}

void *arena_get(struct arena *a, size_t n) {
        n = (n + 15) & ~(size_t)15;
        if (n > a->max || a->total > a->max - n)
                return NULL;
        if (!a->blocks || n > a->blocks->size - a->used) {
                size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
                struct arena_block *b = calloc(1, sizeof *b + size);
                if (!b)
                        return NULL;
                b->size = size;
                b->next = a->blocks;
                a->blocks = b;
                a->used = 0;
        }
        void *p = a->blocks->bytes + a->used;
        a->used += n;
        a->total += n;
        return p;
}

struct str arena_copy(struct arena *a, struct str s) {
        char *p = arena_get(a, s.n + 1);
        if (p && s.n)
                memcpy(p, s.p, s.n);
        return (struct str){ p, p ? s.n : 0 };
}
