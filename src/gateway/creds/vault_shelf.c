/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/vault_shelf.h"

#include "base/secrets/secret.h"

#include <stdlib.h>

void shelf_init(struct shelf *shelf, size_t max, char *room, size_t room_n) {
        *shelf = (struct shelf){ .max = max, .room = room, .room_n = room_n };
        link_init(&shelf->order);
        link_init(&shelf->places);
        shelf->last = &shelf->places;
}

static void leave_room(struct shelf *shelf, struct kept *kept) {
        if (shelf->last == &kept->place)
                shelf->last = kept->place.prev;
        link_remove(&kept->place);
}

void shelf_drop(struct shelf *shelf, struct kept *kept) {
        map_remove(&shelf->by_key, str_n(kept->key, kept->key_n));
        link_remove(&kept->link);
        leave_room(shelf, kept);
        tls_leaf_unref(kept->leaf);
        if (kept->bytes)
                secret_wipe(kept->bytes, kept->bytes_n);
        free(kept);
}

void shelf_clear(struct shelf *shelf) {
        while (!link_is_empty(&shelf->order))
                shelf_drop(shelf, link_owner(shelf->order.next, struct kept, link));
}

void shelf_done(struct shelf *shelf) {
        if (!shelf->order.next)
                return;
        shelf_clear(shelf);
        map_done(&shelf->by_key, NULL);
}

struct kept *shelf_find(struct shelf *shelf, struct str key) {
        struct kept *kept = map_get(&shelf->by_key, key);
        if (kept) {
                link_remove(&kept->link);
                link_append(&shelf->order, &kept->link);
        }
        return kept;
}

/* The first n bytes that are free behind this place; *ret_next is the place behind them. NULL: there are none. */
static char *find_room(struct shelf *shelf, struct link *place, size_t n, struct link **ret_next) {
        struct kept *kept = link_owner(place, struct kept, place);
        char *at = place == &shelf->places ? shelf->room : kept->bytes + kept->bytes_n;
        struct link *l = place->next;
        for (; l != &shelf->places; l = l->next) {
                kept = link_owner(l, struct kept, place);
                if ((size_t)(kept->bytes - at) >= n)
                        break;
                at = kept->bytes + kept->bytes_n;
        }

        *ret_next = l;
        return shelf->room_n - (size_t)(at - shelf->room) >= n ? at : NULL;
}

/* Searches from the slot after the last one given out, the most likely place, then everywhere; while there is none, the
 * least recently used entry is dropped. */
static bool make_room(struct shelf *shelf, struct kept *kept, size_t n) {
        struct link *next;

        while (!(kept->bytes = find_room(shelf, shelf->last, n, &next)) &&
               !(kept->bytes = find_room(shelf, &shelf->places, n, &next))) {
                if (link_is_empty(&shelf->order))
                        return false;
                shelf_drop(shelf, link_owner(shelf->order.next, struct kept, link));
        }

        kept->bytes_n = n;
        link_append(next, &kept->place);
        shelf->last = &kept->place;

        return true;
}

struct kept *shelf_add(struct shelf *shelf, struct str key, size_t n) {
        struct kept *old = map_get(&shelf->by_key, key);
        if (old)
                shelf_drop(shelf, old);
        else if (shelf->by_key.n >= shelf->max)
                shelf_drop(shelf, link_owner(shelf->order.next, struct kept, link));

        struct kept *kept = calloc(1, sizeof *kept + key.n);
        if (!kept)
                return NULL;

        link_init(&kept->place);

        if ((n > 0 && !make_room(shelf, kept, n)) || map_add(&shelf->by_key, key, kept) < 0) {
                leave_room(shelf, kept);
                free(kept);
                return NULL;
        }

        kept->key_n = key.n;
        memcpy(kept->key, key.p, key.n);
        link_append(&shelf->order, &kept->link);

        return kept;
}
