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

void arena_done(struct arena *arena) {
        for (struct arena_block *block = arena->blocks; block;) {
                struct arena_block *next = block->next;
                free(block);
                block = next;
        }
        *arena = (struct arena){ .max = arena->max };
}

void *arena_get(struct arena *arena, size_t n) {
        n = (n + 15) & ~(size_t)15;
        if (n > arena->max || arena->total > arena->max - n)
                return NULL;

        if (!arena->blocks || n > arena->blocks->size - arena->used) {
                size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
                struct arena_block *block = calloc(1, sizeof *block + size);
                if (!block)
                        return NULL;

                block->size = size;
                block->next = arena->blocks;
                arena->blocks = block;
                arena->used = 0;
        }

        void *p = arena->blocks->bytes + arena->used;
        arena->used += n;
        arena->total += n;

        return p;
}

struct str arena_copy(struct arena *arena, struct str s) {
        char *p = arena_get(arena, s.n + 1);
        if (p && s.n)
                memcpy(p, s.p, s.n);
        return (struct str){ p, p ? s.n : 0 };
}
