/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dns/synthetic.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Slots 1..size; 0 is "none" in the chains. The list from oldest to newest use holds every bound slot that nobody
 * holds. */
struct slot {
        char *name;
        uint32_t chain; /* next in its bucket */
        uint32_t older, newer;
        uint32_t generation; /* of the binding: one more each time the slot gets a new name */
        uint32_t holds;
        uint8_t name_n;
        uint64_t used_ns;
};

struct synthetic {
        pthread_mutex_t lock;
        uint64_t grace_ns;
        uint32_t size, bound, mask;
        uint32_t oldest, newest;
        uint32_t *buckets;
        struct slot *slots;
};

static const uint8_t net4[2] = { 198, 18 };
static const uint8_t net6[12] = { 0xfd, 0x00, 0xba, 0x11 };

bool synthetic_contains(const struct addr *a) {
        if (a->family == ADDR_V4)
                return a->bytes[0] == net4[0] && (a->bytes[1] & 0xfe) == net4[1];
        return a->family == ADDR_V6 && memcmp(a->bytes, net6, 8) == 0;
}

/* The slot that an address of the pool's networks belongs to, or 0. */
static uint32_t slot_of(const struct synthetic *s, const struct addr *a) {
        uint32_t offset;
        if (!synthetic_contains(a))
                return 0;
        if (a->family == ADDR_V4) {
                offset = (uint32_t)(a->bytes[1] & 1) << 16 | (uint32_t)a->bytes[2] << 8 | a->bytes[3];
        } else {
                if (memcmp(a->bytes, net6, sizeof net6) != 0)
                        return 0;
                offset = (uint32_t)a->bytes[12] << 24 | (uint32_t)a->bytes[13] << 16 | (uint32_t)a->bytes[14] << 8 |
                         a->bytes[15];
        }
        return offset >= SYNTHETIC_FIRST && offset - SYNTHETIC_FIRST < s->size ? offset - SYNTHETIC_FIRST + 1 : 0;
}

static void addresses_of(uint32_t index, struct addr *ret_v4, struct addr *ret_v6) {
        uint32_t offset = index - 1 + SYNTHETIC_FIRST;
        const uint8_t low[4] = { (uint8_t)(offset >> 24), (uint8_t)(offset >> 16), (uint8_t)(offset >> 8),
                                 (uint8_t)offset };
        *ret_v4 = (struct addr){ .family = ADDR_V4, .bytes = { net4[0], (uint8_t)(net4[1] | low[1]), low[2], low[3] } };
        *ret_v6 = (struct addr){ .family = ADDR_V6 };
        memcpy(ret_v6->bytes, net6, sizeof net6);
        memcpy(ret_v6->bytes + sizeof net6, low, sizeof low);
}

static void unlink_slot(struct synthetic *s, uint32_t i) {
        struct slot *slot = &s->slots[i];
        if (slot->older)
                s->slots[slot->older].newer = slot->newer;
        else
                s->oldest = slot->newer;
        if (slot->newer)
                s->slots[slot->newer].older = slot->older;
        else
                s->newest = slot->older;
        slot->older = slot->newer = 0;
}

static void link_newest(struct synthetic *s, uint32_t i) {
        struct slot *slot = &s->slots[i];
        slot->older = s->newest;
        slot->newer = 0;
        if (s->newest)
                s->slots[s->newest].newer = i;
        else
                s->oldest = i;
        s->newest = i;
}

static uint32_t *bucket_of(struct synthetic *s, struct str name) {
        return &s->buckets[hash_bytes(hash_seed(), name.p, name.n) & s->mask];
}

static void forget(struct synthetic *s, uint32_t i) {
        struct slot *slot = &s->slots[i];
        uint32_t *at = bucket_of(s, str_n(slot->name, slot->name_n));
        while (*at != i)
                at = &s->slots[*at].chain;
        *at = slot->chain;
        unlink_slot(s, i);
        free(slot->name);
        slot->name = NULL;
        slot->chain = 0;
}

/* A slot for a new name: one never used, else the one unused the longest if that is long enough. 0: none. */
static uint32_t vacant_slot(struct synthetic *s, uint64_t now_ns) {
        if (s->bound < s->size)
                return ++s->bound;
        uint32_t i = s->oldest;
        if (i == 0 || now_ns < s->slots[i].used_ns || now_ns - s->slots[i].used_ns < s->grace_ns)
                return 0;
        forget(s, i);
        return i;
}

static int bind_new(struct synthetic *s, struct str name, uint32_t *bucket, uint64_t now_ns, uint32_t *ret) {
        cleanup(free_ptr) char *copy = str_dup(name);
        if (!copy)
                return -ENOMEM;
        uint32_t i = vacant_slot(s, now_ns);
        if (i == 0)
                return -ENOSPC;
        struct slot *slot = &s->slots[i];
        slot->name = take_ptr(&copy);
        slot->name_n = (uint8_t)name.n;
        slot->generation++;
        slot->chain = *bucket; /* read after vacant_slot(), which may have changed this very chain */
        *bucket = i;
        link_newest(s, i);
        *ret = i;
        return 0;
}

int synthetic_bind(struct synthetic *s, const struct host *name, uint64_t now_ns, struct addr *ret_v4,
                   struct addr *ret_v6) {
        struct str text = host_str(name);
        int r = 0;
        pthread_mutex_lock(&s->lock);
        uint32_t *bucket = bucket_of(s, text);
        uint32_t i = *bucket;
        while (i && !str_eq(str_n(s->slots[i].name, s->slots[i].name_n), text))
                i = s->slots[i].chain;
        if (i == 0) {
                r = bind_new(s, text, bucket, now_ns, &i);
        } else if (s->slots[i].holds == 0 && s->newest != i) {
                unlink_slot(s, i);
                link_newest(s, i);
        }
        if (r == 0)
                s->slots[i].used_ns = now_ns;
        pthread_mutex_unlock(&s->lock);
        if (r == 0)
                addresses_of(i, ret_v4, ret_v6);
        return r;
}

int synthetic_acquire(struct synthetic *s, const struct addr *a, uint64_t now_ns, struct host *ret_name,
                      struct synthetic_hold *ret_hold) {
        int r = -ENOENT;
        pthread_mutex_lock(&s->lock);
        uint32_t i = slot_of(s, a);
        struct slot *slot = &s->slots[i];
        if (i && slot->name) {
                *ret_name = (struct host){ .kind = HOST_NAME, .name_n = slot->name_n };
                memcpy(ret_name->name, slot->name, (size_t)slot->name_n + 1);
                *ret_hold = (struct synthetic_hold){ .index = i, .generation = slot->generation };
                if (slot->holds++ == 0)
                        unlink_slot(s, i);
                slot->used_ns = now_ns;
                r = 0;
        }
        pthread_mutex_unlock(&s->lock);
        return r;
}

void synthetic_release(struct synthetic *s, struct synthetic_hold *hold, uint64_t now_ns) {
        if (hold->index == 0)
                return;
        pthread_mutex_lock(&s->lock);
        struct slot *slot = &s->slots[hold->index];
        if (slot->generation == hold->generation && slot->holds > 0) {
                slot->used_ns = now_ns;
                if (--slot->holds == 0)
                        link_newest(s, hold->index);
        }
        pthread_mutex_unlock(&s->lock);
        *hold = (struct synthetic_hold){ 0 };
}

bool synthetic_lookup(struct synthetic *s, const struct addr *a, struct host *ret_name) {
        struct synthetic_hold hold;
        uint64_t now = clock_ns();
        if (synthetic_acquire(s, a, now, ret_name, &hold) < 0)
                return false;
        synthetic_release(s, &hold, now);
        return true;
}

int synthetic_new(const struct synthetic_settings *settings, struct synthetic **ret, struct err *e) {
        uint32_t size = settings->size ? settings->size : SYNTHETIC_SIZE;
        if (size > SYNTHETIC_SIZE_MAX)
                return err_set(e, EINVAL, "%u synthetic addresses do not fit their network (at most %u)", size,
                               SYNTHETIC_SIZE_MAX);
        cleanup(synthetic_freep) struct synthetic *s = calloc(1, sizeof *s);
        if (!s)
                return err_set(e, ENOMEM, "out of memory");
        pthread_mutex_init(&s->lock, NULL);
        s->size = size;
        s->grace_ns = settings->grace_ns ? settings->grace_ns : SYNTHETIC_GRACE_NS;
        uint32_t n_buckets = 16;
        while (n_buckets < size)
                n_buckets *= 2;
        s->mask = n_buckets - 1;
        s->buckets = calloc(n_buckets, sizeof *s->buckets);
        s->slots = calloc((size_t)size + 1, sizeof *s->slots); /* zero pages until used */
        if (!s->buckets || !s->slots)
                return err_set(e, ENOMEM, "out of memory");
        *ret = take_ptr(&s);
        return 0;
}

void synthetic_free(struct synthetic *s) {
        if (!s)
                return;
        for (uint32_t i = 1; s->slots && i <= s->bound; i++)
                free(s->slots[i].name);
        free(s->slots);
        free(s->buckets);
        pthread_mutex_destroy(&s->lock);
        free(s);
}

void synthetic_freep(struct synthetic **s) {
        synthetic_free(*s);
}
