/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Memory for one syntax tree: taken in small pieces, given back all at once, and never more than the limit. */
#include "base/str.h"

struct arena_block;
struct arena {
        struct arena_block *blocks;
        size_t used; /* in the newest block */
        size_t total, max;
};

void arena_done(struct arena *arena);
/* Zeroed; NULL when out of memory or above the limit. */
void *arena_get(struct arena *arena, size_t n);
/* A copy, terminated. p is NULL when out of memory. */
struct str arena_copy(struct arena *arena, struct str s);
