/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list for all workers. Its lock is taken when a value comes and when a scrubber is built from the values
 * (gateway/creds/swap.c); both are rare. Requests only compare the generation. At most KEPT replaced values of each
 * part, each for KEEP_NS: a replaced secret soon becomes worthless, and a hundred replacements a minute are not a case
 * we cover.
 *
 * The bytes lie in locked memory, in the order of the list, without gaps; when there is no room the oldest replaced one
 * goes. If even so little memory cannot be locked, the heap is used.
 */
#include "gateway/creds/old_secrets.h"

#include "base/clock.h"
#include "base/secrets/secret.h"

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
        struct past *past = calloc(1, sizeof *past);
        if (!past)
                return -ENOMEM;

        if (secret_new_empty(BYTES, &past->locked, NULL) == 0)
                past->bytes = secret_bytes(past->locked);
        else
                past->bytes = past->heap = malloc(BYTES);

        if (!past->bytes) {
                free(past);
                return -ENOMEM;
        }

        pthread_mutex_init(&past->lock, NULL);
        *ret = past;

        return 0;
}

void past_free(struct past *past) {
        if (!past)
                return;
        secret_wipe(past->bytes, BYTES);
        secret_free(past->locked);
        free(past->heap);
        pthread_mutex_destroy(&past->lock);
        free(past);
}

void past_unlock(struct past *past) {
        pthread_mutex_unlock(&past->lock);
}

static void secrets_drop(struct past *past, size_t i) {
        struct entry gone = past->entries[i];
        memmove(past->bytes + gone.at, past->bytes + gone.at + gone.n, past->used - gone.at - gone.n);
        past->used -= gone.n;
        secret_wipe(past->bytes + past->used, gone.n);
        memmove(past->entries + i, past->entries + i + 1, (--past->n - i) * sizeof *past->entries);
        for (; i < past->n; i++)
                past->entries[i].at -= gone.n;
}

static bool is_of(const struct entry *entry, uint32_t mapping, enum vault_part part) {
        return entry->mapping == mapping && entry->part == part;
}

/* Drops the one that was replaced first; if none was, the oldest: its own worker still has it for its scrubber. */
static void make_room(struct past *past, size_t n) {
        while (past->n == ENTRIES || past->used + n > BYTES) {
                size_t oldest = 0;
                while (oldest < past->n && !past->entries[oldest].replaced)
                        oldest++;
                secrets_drop(past, oldest < past->n ? oldest : 0);
        }
}

/* Marks the previous value as replaced; if the same value was here before, it becomes the newest. */
static void secrets_retire(struct past *past, uint32_t mapping, enum vault_part part, struct str value, uint64_t now) {
        size_t kept = 0;

        for (size_t i = past->n; i-- > 0;) {
                struct entry *entry = &past->entries[i];
                if (!is_of(entry, mapping, part))
                        continue;
                if (!entry->replaced)
                        entry->replaced = now ? now : 1;
                if (str_eq(str_n(past->bytes + entry->at, entry->n), value) || ++kept > KEPT)
                        secrets_drop(past, i);
        }
}

static bool is_current(const struct past *past, uint32_t mapping, enum vault_part part, struct str value) {
        for (size_t i = past->n; i-- > 0;)
                if (is_of(&past->entries[i], mapping, part) && !past->entries[i].replaced)
                        return str_eq(str_n(past->bytes + past->entries[i].at, past->entries[i].n), value);
        return false;
}

void past_add(struct past *past, uint32_t mapping, enum vault_part part, struct str value, uint64_t now) {
        if (!past || value.n == 0 || value.n > VAULT_SECRET_MAX)
                return;

        past_lock(past, now);

        if (!is_current(past, mapping, part, value)) {
                secrets_retire(past, mapping, part, value, now);
                make_room(past, value.n);
                past->entries[past->n++] =
                    (struct entry){ .mapping = mapping, .part = (uint8_t)part, .at = past->used, .n = value.n };
                memcpy(past->bytes + past->used, value.p, value.n);
                past->used += value.n;
                atomic_fetch_add_explicit(&past->generation, 1, memory_order_release);
        }

        past_unlock(past);
}

uint64_t past_generation(const struct past *past) {
        if (past)
                return atomic_load_explicit(&past->generation, memory_order_acquire);

        return 0;
}

void past_lock(struct past *past, uint64_t now) {
        pthread_mutex_lock(&past->lock);
        for (size_t i = past->n; i-- > 0;)
                if (past->entries[i].replaced && now > past->entries[i].replaced &&
                    now - past->entries[i].replaced > KEEP_NS)
                        secrets_drop(past, i);
}

bool past_next(const struct past *past, uint32_t mapping, size_t *at, enum vault_part *ret_part,
               struct str *ret_value) {
        while (*at < past->n) {
                const struct entry *entry = &past->entries[(*at)++];
                if (entry->mapping != mapping)
                        continue;

                *ret_part = (enum vault_part)entry->part;
                *ret_value = str_n(past->bytes + entry->at, entry->n);
                return true;
        }

        return false;
}
