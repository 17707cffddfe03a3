/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t key_hash(struct str key) {
        uint64_t h = hash_bytes(hash_seed(), key.p, key.n);
        return h ? h : 1;
}

/* The slot with the key, or NULL; *ret_free is where it would go. */
static struct map_slot *map_find(const struct map *map, struct str key, uint64_t hash, struct map_slot **ret_free) {
        struct map_slot *vacant = NULL;

        if (map->cap == 0)
                return NULL;

        for (size_t i = hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
                struct map_slot *slot = &map->slots[i];
                if (slot->hash == 0) {
                        if (ret_free)
                                *ret_free = vacant ? vacant : slot;
                        return NULL;
                }

                if (!slot->key) {
                        if (!vacant)
                                vacant = slot;
                        continue;
                }

                if (slot->hash == hash && str_eq(str_n(slot->key, slot->key_n), key))
                        return slot;
        }
}

/* Keeps at least a quarter of the table empty, so that every probe ends. */
static int make_room(struct map *map) {
        if (map->cap && map->used + 1 <= map->cap - map->cap / 4)
                return 0;

        size_t cap = 16;
        while (cap < map->n * 2 + 2)
                cap *= 2;

        struct map_slot *slots = calloc(cap, sizeof *slots);
        if (!slots)
                return -ENOMEM;

        for (size_t i = 0; i < map->cap; i++) {
                if (!map->slots[i].key)
                        continue;

                size_t at = map->slots[i].hash & (cap - 1);
                while (slots[at].hash)
                        at = (at + 1) & (cap - 1);

                slots[at] = map->slots[i];
        }

        free(map->slots);
        map->slots = slots;
        map->cap = cap;
        map->used = map->n;

        return 0;
}

void map_done(struct map *map, void (*free_value)(void *)) {
        for (size_t i = 0; i < map->cap; i++) {
                if (!map->slots[i].key)
                        continue;
                free(map->slots[i].key);
                if (free_value)
                        free_value(map->slots[i].value);
        }

        free(map->slots);
        *map = (struct map){ 0 };
}

void *map_get(const struct map *map, struct str key) {
        struct map_slot *slot = map_find(map, key, key_hash(key), NULL);
        return slot ? slot->value : NULL;
}

static int map_insert(struct map *map, struct str key, void *value, bool replace, void **ret_old) {
        uint64_t hash = key_hash(key);

        if (make_room(map) < 0)
                return -ENOMEM;

        struct map_slot *vacant = NULL;
        struct map_slot *slot = map_find(map, key, hash, &vacant);
        if (slot) {
                if (!replace)
                        return -EEXIST;

                *ret_old = slot->value;
                slot->value = value;
                return 0;
        }

        char *copy = malloc(key.n ? key.n : 1);
        if (!copy)
                return -ENOMEM;
        if (key.n)
                memcpy(copy, key.p, key.n);

        map->used += vacant->hash == 0;
        map->n++;
        *vacant = (struct map_slot){ .hash = hash, .key = copy, .key_n = key.n, .value = value };

        return 0;
}

int map_add(struct map *map, struct str key, void *value) {
        return map_insert(map, key, value, false, NULL);
}

int map_set(struct map *map, struct str key, void *value, void **ret_old) {
        void *old = NULL;
        int r = map_insert(map, key, value, true, &old);
        if (r == 0 && ret_old)
                *ret_old = old;
        return r;
}

void *map_remove(struct map *map, struct str key) {
        struct map_slot *slot = map_find(map, key, key_hash(key), NULL);
        if (!slot)
                return NULL;
        free(slot->key);
        slot->key = NULL;
        map->n--;
        return slot->value;
}

bool map_next(const struct map *map, size_t *cursor, struct str *ret_key, void **ret_value) {
        for (; *cursor < map->cap; ++*cursor) {
                const struct map_slot *slot = &map->slots[*cursor];
                if (!slot->key)
                        continue;
                if (ret_key)
                        *ret_key = str_n(slot->key, slot->key_n);
                if (ret_value)
                        *ret_value = slot->value;

                ++*cursor;
                return true;
        }

        return false;
}
