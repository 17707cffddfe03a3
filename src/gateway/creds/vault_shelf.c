/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/vault_shelf.h"

#include "base/secret.h"

#include <stdlib.h>

void shelf_init(struct shelf *s, size_t max, char *room, size_t room_n) {
        *s = (struct shelf){ .max = max, .room = room, .room_n = room_n };
        link_init(&s->order);
        link_init(&s->places);
        s->last = &s->places;
}

static void leave_room(struct shelf *s, struct kept *k) {
        if (s->last == &k->place)
                s->last = k->place.prev;
        link_remove(&k->place);
}

void shelf_drop(struct shelf *s, struct kept *k) {
        map_remove(&s->by_key, str_n(k->key, k->key_n));
        link_remove(&k->link);
        leave_room(s, k);
        tls_leaf_unref(k->leaf);
        if (k->bytes)
                secret_wipe(k->bytes, k->bytes_n);
        free(k);
}

void shelf_clear(struct shelf *s) {
        while (!link_is_empty(&s->order))
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
}

void shelf_done(struct shelf *s) {
        if (!s->order.next)
                return;
        shelf_clear(s);
        map_done(&s->by_key, NULL);
}

struct kept *shelf_find(struct shelf *s, struct str key) {
        struct kept *k = map_get(&s->by_key, key);
        if (k) {
                link_remove(&k->link);
                link_append(&s->order, &k->link);
        }
        return k;
}

/* The first n bytes that are free behind this place; *ret_next is the place behind them. NULL: there are none. */
static char *find_room(struct shelf *s, struct link *place, size_t n, struct link **ret_next) {
        struct kept *k = link_owner(place, struct kept, place);
        char *at = place == &s->places ? s->room : k->bytes + k->bytes_n;
        struct link *l = place->next;
        for (; l != &s->places; l = l->next) {
                k = link_owner(l, struct kept, place);
                if ((size_t)(k->bytes - at) >= n)
                        break;
                at = k->bytes + k->bytes_n;
        }
        *ret_next = l;
        return s->room_n - (size_t)(at - s->room) >= n ? at : NULL;
}

/* Looks behind the place that was given out last, where it is most likely, then everywhere; for as long as there is
 * nothing, what was not used for longest gives way. */
static bool make_room(struct shelf *s, struct kept *k, size_t n) {
        struct link *next;
        while (!(k->bytes = find_room(s, s->last, n, &next)) && !(k->bytes = find_room(s, &s->places, n, &next))) {
                if (link_is_empty(&s->order))
                        return false;
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
        }
        k->bytes_n = n;
        link_append(next, &k->place);
        s->last = &k->place;
        return true;
}

struct kept *shelf_add(struct shelf *s, struct str key, size_t n) {
        struct kept *old = map_get(&s->by_key, key);
        if (old)
                shelf_drop(s, old);
        else if (s->by_key.n >= s->max)
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
        struct kept *k = calloc(1, sizeof *k + key.n);
        if (!k)
                return NULL;
        link_init(&k->place);
        if ((n > 0 && !make_room(s, k, n)) || map_add(&s->by_key, key, k) < 0) {
                leave_room(s, k);
                free(k);
                return NULL;
        }
        k->key_n = key.n;
        memcpy(k->key, key.p, key.n);
        link_append(&s->order, &k->link);
        return k;
}
