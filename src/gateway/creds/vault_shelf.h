/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the vault answered, kept by the question; the one used least recently gives way. For vault_client.c. */
#include "base/map.h"
#include "gateway/creds/vault_client.h"

struct kept {
        struct link link;  /* the one used last is at the end */
        struct link place; /* of those with bytes, in the order of their addresses */
        uint32_t mapping;
        struct tls_leaf *leaf; /* a certificate, or */
        union {                /* a secret, whose texts lie in `bytes` */
                struct vault_value value;
                struct vault_signing_key signing;
        };
        char *bytes; /* in the shelf's room */
        size_t bytes_n;
        size_t key_n;
        char key[];
};

struct shelf {
        struct map by_key;
        struct link order, places; /* of struct kept: by last use, and by where their bytes lie */
        struct link *last;         /* in places: what was put there last, or their beginning */
        size_t max;
        char *room;
        size_t room_n;
};

/* room: memory for secrets, which stays the caller's; NULL for a shelf without any. */
void shelf_init(struct shelf *shelf, size_t max, char *room, size_t room_n);
/* Drops all, wiped. */
void shelf_clear(struct shelf *shelf);
void shelf_done(struct shelf *shelf);
struct kept *shelf_find(struct shelf *shelf, struct str key);
/* An empty place for the key (its old entry is dropped) with room for n bytes, evicting others if needed; NULL: no
 * memory. */
struct kept *shelf_add(struct shelf *shelf, struct str key, size_t n);
void shelf_drop(struct shelf *shelf, struct kept *kept);
