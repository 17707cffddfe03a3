/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list for all workers, under a lock that is taken when a value comes and when words are made of them (gateway/
 * swap.c), both of which are rare; requests look at the generation only. At most KEPT replaced values of each part,
 * each for KEEP_NS: a secret that was replaced is worth nothing soon, and whoever replaces it a hundred times a minute
 * has other worries.
 *
 * The bytes lie in locked memory, in the order of the list, without gaps; when there is no room the oldest that was
 * replaced goes. Where so little cannot be locked, it is the heap.
 */
#include "gateway/creds/old_secrets.h"

#include "base/clock.h"
#include "base/secret.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ENTRIES = 1024, BYTES = 6 * VAULT_SECRET_MAX, KEPT = 4 };
#define KEEP_NS (600 * NS_PER_SECOND)

struct entry {
        uint32_t mapping;
        uint8_t part;
        size_t at, n;
        uint64_t replaced; /* when; 0: it is the current one */
};

struct past {
        pthread_mutex_t lock;
        atomic_uint_fast64_t generation;
        struct secret *locked;
        char *heap, *bytes;
        size_t used, n;
        struct entry entries[ENTRIES]; /* the oldest first */
};

int past_new(struct past **ret) {
        struct past *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        if (secret_new_empty(BYTES, &p->locked, NULL) == 0)
                p->bytes = secret_bytes(p->locked);
        else
                p->bytes = p->heap = malloc(BYTES);
        if (!p->bytes) {
                free(p);
                return -ENOMEM;
        }
        pthread_mutex_init(&p->lock, NULL);
        *ret = p;
        return 0;
}

void past_free(struct past *p) {
        if (!p)
                return;
        secret_wipe(p->bytes, BYTES);
        secret_free(p->locked);
        free(p->heap);
        pthread_mutex_destroy(&p->lock);
        free(p);
}

void past_unlock(struct past *p) {
        pthread_mutex_unlock(&p->lock);
}

static void drop(struct past *p, size_t i) {
        struct entry gone = p->entries[i];
        memmove(p->bytes + gone.at, p->bytes + gone.at + gone.n, p->used - gone.at - gone.n);
        p->used -= gone.n;
        secret_wipe(p->bytes + p->used, gone.n);
        memmove(p->entries + i, p->entries + i + 1, (--p->n - i) * sizeof *p->entries);
        for (; i < p->n; i++)
                p->entries[i].at -= gone.n;
}

static bool is_of(const struct entry *e, uint32_t mapping, enum vault_part part) {
        return e->mapping == mapping && e->part == part;
}

/* The one that was replaced first goes; where none was, the oldest: its worker has it, and puts it into its own words.
 */
static void make_room(struct past *p, size_t n) {
        while (p->n == ENTRIES || p->used + n > BYTES) {
                size_t oldest = 0;
                while (oldest < p->n && !p->entries[oldest].replaced)
                        oldest++;
                drop(p, oldest < p->n ? oldest : 0);
        }
}

/* The value before is one that was replaced from now on; the same value, if it was here, will be the newest. */
static void retire(struct past *p, uint32_t mapping, enum vault_part part, struct str value, uint64_t now) {
        size_t kept = 0;
        for (size_t i = p->n; i-- > 0;) {
                struct entry *e = &p->entries[i];
                if (!is_of(e, mapping, part))
                        continue;
                if (!e->replaced)
                        e->replaced = now ? now : 1;
                if (str_eq(str_n(p->bytes + e->at, e->n), value) || ++kept > KEPT)
                        drop(p, i);
        }
}

static bool is_current(const struct past *p, uint32_t mapping, enum vault_part part, struct str value) {
        for (size_t i = p->n; i-- > 0;)
                if (is_of(&p->entries[i], mapping, part) && !p->entries[i].replaced)
                        return str_eq(str_n(p->bytes + p->entries[i].at, p->entries[i].n), value);
        return false;
}

void past_add(struct past *p, uint32_t mapping, enum vault_part part, struct str value, uint64_t now) {
        if (!p || value.n == 0 || value.n > VAULT_SECRET_MAX)
                return;
        past_lock(p, now);
        if (!is_current(p, mapping, part, value)) {
                retire(p, mapping, part, value, now);
                make_room(p, value.n);
                p->entries[p->n++] =
                    (struct entry){ .mapping = mapping, .part = (uint8_t)part, .at = p->used, .n = value.n };
                memcpy(p->bytes + p->used, value.p, value.n);
                p->used += value.n;
                atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
        }
        past_unlock(p);
}

uint64_t past_generation(const struct past *p) {
        return p ? atomic_load_explicit(&p->generation, memory_order_acquire) : 0;
}

void past_lock(struct past *p, uint64_t now) {
        pthread_mutex_lock(&p->lock);
        for (size_t i = p->n; i-- > 0;)
                if (p->entries[i].replaced && now > p->entries[i].replaced && now - p->entries[i].replaced > KEEP_NS)
                        drop(p, i);
}

bool past_next(const struct past *p, uint32_t mapping, size_t *at, enum vault_part *ret_part, struct str *ret_value) {
        while (*at < p->n) {
                const struct entry *e = &p->entries[(*at)++];
                if (e->mapping != mapping)
                        continue;
                *ret_part = (enum vault_part)e->part;
                *ret_value = str_n(p->bytes + e->at, e->n);
                return true;
        }
        return false;
}
