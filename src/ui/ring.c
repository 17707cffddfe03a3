/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/ring.h"

#include <stdlib.h>

void ring_init(struct ring *ring) {
        *ring = (struct ring){ .first = 1, .next = 1 };
}

static void ring_drop_first(struct ring *ring) {
        size_t slot = ring->first++ % RING_EVENTS;

        ring->bytes -= ring->slots[slot].n;
        free(ring->slots[slot].text);
        ring->slots[slot].text = NULL;
        ring->slots[slot].n = 0;
}

void ring_done(struct ring *ring) {
        while (ring->first < ring->next)
                ring_drop_first(ring);
}

void ring_add(struct ring *ring, struct str text) {
        while (ring->first < ring->next &&
               (ring->next - ring->first >= RING_EVENTS || ring->bytes + text.n > RING_BYTES))
                ring_drop_first(ring);

        size_t slot = ring->next++ % RING_EVENTS;
        char *copy = malloc(text.n ? text.n : 1);
        ring->slots[slot].text = copy;
        ring->slots[slot].n = copy ? text.n : 0;

        if (!copy)
                return;

        memcpy(copy, text.p, text.n);
        ring->bytes += text.n;
}

struct str ring_get(const struct ring *ring, uint64_t number) {
        if (number < ring->first || number >= ring->next)
                return (struct str){ 0 };
        return str_n(ring->slots[number % RING_EVENTS].text, ring->slots[number % RING_EVENTS].n);
}
