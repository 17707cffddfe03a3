/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest events, numbered from 1, so that a page whose connection broke gets the events it missed. Bounded by
 * number and by bytes; a page that was away for longer must reload its state.
 */
#include "base/str.h"

enum { RING_EVENTS = 8192, RING_BYTES = 8 << 20 };

struct ring {
        struct {
                char *text;
                size_t n;
        } slots[RING_EVENTS];
        uint64_t first, next; /* numbers of the oldest and of the next one */
        size_t bytes;
};

void ring_init(struct ring *ring);
void ring_done(struct ring *ring);
/* Copies the text. Without memory the event is left out and the number is used all the same: a gap shows it. */
void ring_add(struct ring *ring, struct str text);
/* p NULL: not there (any more). */
struct str ring_get(const struct ring *ring, uint64_t number);
