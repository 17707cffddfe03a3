/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For a process that has done its work and now waits, perhaps for days. It gives back memory that the kernel can have
 * without loss: freed heap, and the pages of the program itself, which come back from the page cache when they are
 * used. A start touches many of them once, and the kernel maps the neighbours of each.
 */
#include "base/processes/poller.h"

enum { REST_AFTER_MS = 500 }; /* until a process that waits counts as one that rests */

void process_rest(void);

/* The same as a part of a poller: once, when so much time has passed. */
struct rest {
        uint64_t due_ns;
};
struct rest rest_begin(void);
void rest_watch(void *rest, struct poller *poller);
int rest_step(void *rest, struct poller *poller, struct err *err);
