/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Plain paths by their hash. A rule for a plain path holds for that path and for everything below, so those that hold
 * for a path are the path itself and the directories above it: one pass over its bytes has the hash of each of them,
 * and the number of rules does not matter.
 */
#include <stddef.h>
#include <stdint.h>

struct path_index {
        struct path_index_slot {
                uint32_t hash, number; /* number: counted from 1; 0: nothing here */
        } * slots;
        size_t mask;
};

void path_index_done(struct path_index *index);
/* Room for so many paths. -ENOMEM. */
int path_index_reserve(struct path_index *index, size_t n);
void path_index_add(struct path_index *index, const char *path, size_t n, uint32_t number);

/* FNV-1a: what the hash of a path begins with, and what one more byte makes of it. Whoever writes rules can make them
 * collide, and then they are looked at one after the other. */
#define PATH_INDEX_SEED 0xcbf29ce484222325ULL

static inline uint64_t path_index_grow(uint64_t hash, char byte) {
        return (hash ^ (unsigned char)byte) * 0x100000001b3ULL;
}

/* The numbers that were added for this hash, in that order: `slot` begins at 0. 0 when there is none left. Another path
 * may have the same hash. */
uint32_t path_index_next(const struct path_index *index, uint64_t hash, size_t *slot);
