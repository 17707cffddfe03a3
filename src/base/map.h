/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hash map from byte strings to pointers: open addressing, keyed hash, keys copied, no order.
 * Values are the caller's; map_done() can free them through the function given.
 */
#include "base/str.h"

struct map_slot {
        uint64_t hash; /* 0: empty */
        char *key;     /* NULL with hash set: deleted */
        size_t key_n;
        void *value;
};

struct map {
        struct map_slot *slots;
        size_t cap;  /* power of two or 0 */
        size_t n;    /* live entries */
        size_t used; /* live and deleted */
};

void map_done(struct map *map, void (*free_value)(void *));
void *map_get(const struct map *map, struct str key);
/* -EEXIST leaves the old value; 0 or -ENOMEM otherwise. value must not be NULL. */
int map_add(struct map *map, struct str key, void *value);
/* Adds or replaces; the old value (or NULL) is handed back. */
int map_set(struct map *map, struct str key, void *value, void **ret_old);
/* Removes and returns the value, or NULL. */
void *map_remove(struct map *map, struct str key);
/* for (size_t i = 0; map_next(m, &i, &key, &value);): no changes meanwhile, except map_remove of the entry shown. */
bool map_next(const struct map *map, size_t *cursor, struct str *ret_key, void **ret_value);
