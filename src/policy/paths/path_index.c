/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/path_index.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS_LEAST = 16 };

void path_index_done(struct path_index *index) {
        free(index->slots);
        *index = (struct path_index){ 0 };
}

/* At most half full, so that a search for what is not there ends soon. */
int path_index_reserve(struct path_index *index, size_t n) {
        size_t size = SLOTS_LEAST;

        while (size < 2 * n)
                size *= 2;

        index->slots = calloc(size, sizeof *index->slots);
        index->mask = size - 1;
        if (!index->slots)
                return -ENOMEM;

        return 0;
}

static uint32_t hash_fold(uint64_t hash) {
        return (uint32_t)(hash ^ (hash >> 32));
}

/* Of several with one hash the next free slot is always behind the others: they are found in the order in which they
 * came. */
void path_index_add(struct path_index *index, const char *path, size_t n, uint32_t number) {
        uint64_t hash = PATH_INDEX_SEED;

        for (size_t i = 0; i < n; i++)
                hash = path_index_grow(hash, path[i]);

        size_t at = hash_fold(hash) & index->mask;
        while (index->slots[at].number)
                at = (at + 1) & index->mask;

        index->slots[at] = (struct path_index_slot){ hash_fold(hash), number };
}

uint32_t path_index_next(const struct path_index *index, uint64_t hash, size_t *slot) {
        const uint32_t folded = hash_fold(hash);

        while (index->slots) {
                const struct path_index_slot *at = &index->slots[(folded + *slot) & index->mask];

                if (!at->number)
                        return 0;

                ++*slot;
                if (at->hash == folded)
                        return at->number;
        }

        return 0;
}
