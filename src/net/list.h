/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A ring of links embedded in the things it holds: no allocation, removal from the middle in constant time. An element
 * that is on no list points at itself, so that removing twice is harmless.
 */
#include <stdbool.h>
#include <stddef.h>

struct link {
        struct link *prev, *next;
};

#define link_owner(l, type, member) ((type *)(void *)((char *)(l)-offsetof(type, member)))

static inline void link_init(struct link *l) {
        l->prev = l->next = l;
}
static inline bool link_is_empty(const struct link *l) {
        return l->next == l || !l->next;
}
static inline void link_remove(struct link *l) {
        if (!l->next)
                return;
        l->prev->next = l->next;
        l->next->prev = l->prev;
        link_init(l);
}
/* Adds at the tail of the list whose head is given. */
static inline void link_append(struct link *head, struct link *l) {
        l->prev = head->prev;
        l->next = head;
        head->prev->next = l;
        head->prev = l;
}
/* Moves everything on `from` to the (initialised, empty) list `to`. */
static inline void link_take_all(struct link *from, struct link *to) {
        link_init(to);
        if (link_is_empty(from))
                return;
        *to = *from;
        to->next->prev = to;
        to->prev->next = to;
        link_init(from);
}
