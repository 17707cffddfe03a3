/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/vault_shelf.h"

#include "base/secret.h"

#include <stdlib.h>

void shelf_init(struct shelf *s, size_t max, char *room, size_t room_n) {
        *s = (struct shelf){ .max = max, .room = room, .room_n = room_n };
        link_init(&s->order);
}

void shelf_drop(struct shelf *s, struct kept *k) {
        map_remove(&s->by_key, str_n(k->key, k->key_n));
        link_remove(&k->link);
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

/* Whether n bytes from `at` on are free; if not, *ret_next is behind what lies there. */
static bool is_free(const struct shelf *s, const char *at, size_t n, char **ret_next) {
        for (const struct link *l = s->order.next; l != &s->order; l = l->next) {
                const struct kept *k = link_owner(l, struct kept, link);
                if (k->bytes && k->bytes < at + n && at < k->bytes + k->bytes_n) {
                        *ret_next = k->bytes + k->bytes_n;
                        return false;
                }
        }
        return true;
}

static char *find_room(const struct shelf *s, size_t n) {
        char *at = s->room;
        while (s->room_n - (size_t)(at - s->room) >= n)
                if (is_free(s, at, n, &at))
                        return at;
        return NULL;
}

static char *make_room(struct shelf *s, size_t n) {
        char *at = find_room(s, n);
        while (!at && !link_is_empty(&s->order)) {
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
                at = find_room(s, n);
        }
        return at;
}

struct kept *shelf_add(struct shelf *s, struct str key, size_t n) {
        struct kept *old = map_get(&s->by_key, key);
        if (old)
                shelf_drop(s, old);
        else if (s->by_key.n >= s->max)
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
        struct kept *k = calloc(1, sizeof *k + key.n);
        if (k && n > 0)
                k->bytes = make_room(s, n);
        if (!k || (n > 0 && !k->bytes) || map_add(&s->by_key, key, k) < 0) {
                free(k);
                return NULL;
        }
        k->bytes_n = n;
        k->key_n = key.n;
        memcpy(k->key, key.p, key.n);
        link_append(&s->order, &k->link);
        return k;
}
