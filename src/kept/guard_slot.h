/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One slot of the registry of guards (kept/guard_registry.h): what a run writes about itself, and reading it. */
#include "base/buf.h"
#include "base/vec.h"
#include "plan/plan.h"

#include <sys/types.h>

#define SLOT_MAGIC "bailey guards 1"
/* What is written at launch is bounded. What a run adds to it is bounded too (broker/made/notes.c: 12 MiB of paths, and
 * three times that while a directory moves). Whatever can be written must be readable: a slot that cannot be
 * read is a run whose guards nobody knows. */
enum { SLOT_BYTES_MAX = 16 << 20, SLOT_READ_MAX = 64 << 20 };

struct slot {
        int number, fd;
        bool live;
        struct buf bytes; /* what the texts below are in */
        const char *id;
        VEC(const char *) roots;
        VEC(struct plan_guard) guards;
        VEC(const char *) made;     /* repositories */
        VEC(const char *) settings; /* of agents, below the top of a root */
        /* Repositories that were there when it began and that it may write to, and when that was by the wall clock. 0:
         * what git has not finished there needs no look (any more). */
        VEC(const char *) open;
        uint64_t began_us;
        pid_t first; /* inside; 0: nothing has run */
        uint64_t first_started;
};
typedef VEC(struct slot) slots;

void slot_done(struct slot *s);
void slots_done(slots *list);

/* What s->bytes has: fields end with a NUL. */
int slot_parse(struct slot *s);

int slot_add_field(struct buf *out, const char *text);
int slot_add_root(struct buf *out, const char *root);
int slot_add_made(struct buf *out, const char *path);
int slot_add_settings(struct buf *out, const char *path);
int slot_add_open(struct buf *out, const char *path);
int slot_add_began(struct buf *out, uint64_t began_us);
/* Only what was missing or a link is written down. */
int slot_add_guard(struct buf *out, const struct plan_guard *guard);
int slot_write(int fd, const struct buf *bytes);
