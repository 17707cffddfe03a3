/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/bounds.h"

#include <stdalign.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 16384, ALIGNMENT = 16 };

struct arena_block {
        struct arena_block *next;
        size_t size;
        alignas(ALIGNMENT) char bytes[];
};

void arena_done(struct arena *arena) {
        for (struct arena_block *block = arena->blocks; block;) {
                struct arena_block *next = block->next;
                free(block);
                block = next;
        }
        *arena = (struct arena){ .max = arena->max };
}

static void *arena_take(struct arena *arena, size_t n, size_t alignment) {
        size_t skipped = -arena->used & (alignment - 1);

        if (n > arena->max || arena->total > arena->max - n)
                return NULL;

        if (!arena->blocks || skipped > arena->blocks->size - arena->used ||
            n > arena->blocks->size - arena->used - skipped) {
                size_t size = max_of(n, BLOCK_BYTES);
                struct arena_block *block = size > SIZE_MAX - sizeof *block ? NULL : calloc(1, sizeof *block + size);
                if (!block)
                        return NULL;

                block->size = size;
                block->next = arena->blocks;
                arena->blocks = block;
                arena->used = skipped = 0;
        }

        void *p = arena->blocks->bytes + arena->used + skipped;
        arena->used += skipped + n;
        arena->total += n;

        return p;
}

void *arena_get(struct arena *arena, size_t n) {
        if (n > SIZE_MAX - (ALIGNMENT - 1))
                return NULL;
        return arena_take(arena, (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1), ALIGNMENT);
}

char *arena_text(struct arena *arena, size_t n) {
        return arena_take(arena, n, 1);
}

struct str arena_copy(struct arena *arena, struct str s) {
        char *p = s.n < SIZE_MAX ? arena_text(arena, s.n + 1) : NULL;
        if (p && s.n)
                memcpy(p, s.p, s.n);
        return (struct str){ p, p ? s.n : 0 };
}
