/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/vault_shelf.h"

#include "base/secret.h"

#include <stdlib.h>

void shelf_init(struct shelf *s, size_t max) {
        *s = (struct shelf){ .max = max };
        link_init(&s->order);
}

void shelf_drop(struct shelf *s, struct kept *k) {
        map_remove(&s->by_key, str_n(k->key, k->key_n));
        link_remove(&k->link);
        tls_leaf_unref(k->leaf);
        if (k->bytes)
                secret_wipe(k->bytes, k->bytes_n);
        free(k->bytes);
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

struct kept *shelf_add(struct shelf *s, struct str key, size_t n) {
        struct kept *old = map_get(&s->by_key, key);
        if (old)
                shelf_drop(s, old);
        else if (s->by_key.n >= s->max)
                shelf_drop(s, link_owner(s->order.next, struct kept, link));
        struct kept *k = calloc(1, sizeof *k + key.n);
        if (k && n > 0)
                k->bytes = malloc(n);
        if (!k || (n > 0 && !k->bytes) || map_add(&s->by_key, key, k) < 0) {
                if (k)
                        free(k->bytes);
                free(k);
                return NULL;
        }
        k->bytes_n = n;
        k->key_n = key.n;
        memcpy(k->key, key.p, key.n);
        link_append(&s->order, &k->link);
        return k;
}
