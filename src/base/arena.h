/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory for one tree (a command, a document, a plan): taken in small pieces, given back all at once, and never more
 * than the limit.
 *
 *     struct arena arena = ARENA(1 << 20);
 *     struct node *node = arena_get(&arena, sizeof *node);
 *     arena_done(&arena);
 */
#include "base/str.h"

struct arena_block;
struct arena {
        struct arena_block *blocks;
        size_t used; /* in the newest block */
        size_t total, max;
};

#define ARENA(limit) ((struct arena){ .max = (limit) })
#define ARENA_UNLIMITED ARENA(SIZE_MAX)

void arena_done(struct arena *arena);
/* Zeroed, and aligned for anything; NULL when out of memory or above the limit. */
void *arena_get(struct arena *arena, size_t n);
/* The same for text: not aligned, so that many short ones take no more than they need. */
char *arena_text(struct arena *arena, size_t n);
/* A copy, terminated. p is NULL when out of memory. */
struct str arena_copy(struct arena *arena, struct str s);
