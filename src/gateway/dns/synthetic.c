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

bool synthetic_contains(const struct addr *addr) {
        if (addr->family == ADDR_V4)
                return addr->bytes[0] == net4[0] && (addr->bytes[1] & 0xfe) == net4[1];
        return addr->family == ADDR_V6 && memcmp(addr->bytes, net6, 8) == 0;
}

/* The slot that an address of the pool's networks belongs to, or 0. */
static uint32_t slot_of(const struct synthetic *synthetic, const struct addr *addr) {
        uint32_t offset;

        if (!synthetic_contains(addr))
                return 0;

        if (addr->family == ADDR_V4) {
                offset = (uint32_t)(addr->bytes[1] & 1) << 16 | (uint32_t)addr->bytes[2] << 8 | addr->bytes[3];
        } else {
                if (memcmp(addr->bytes, net6, sizeof net6) != 0)
                        return 0;
                offset = (uint32_t)addr->bytes[12] << 24 | (uint32_t)addr->bytes[13] << 16 |
                         (uint32_t)addr->bytes[14] << 8 | addr->bytes[15];
        }

        if (offset >= SYNTHETIC_FIRST && offset - SYNTHETIC_FIRST < synthetic->size)
                return offset - SYNTHETIC_FIRST + 1;

        return 0;
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

static void unlink_slot(struct synthetic *synthetic, uint32_t i) {
        struct slot *slot = &synthetic->slots[i];
        if (slot->older)
                synthetic->slots[slot->older].newer = slot->newer;
        else
                synthetic->oldest = slot->newer;

        if (slot->newer)
                synthetic->slots[slot->newer].older = slot->older;
        else
                synthetic->newest = slot->older;

        slot->older = slot->newer = 0;
}

static void link_newest(struct synthetic *synthetic, uint32_t i) {
        struct slot *slot = &synthetic->slots[i];

        slot->older = synthetic->newest;
        slot->newer = 0;

        if (synthetic->newest)
                synthetic->slots[synthetic->newest].newer = i;
        else
                synthetic->oldest = i;

        synthetic->newest = i;
}

static uint32_t *bucket_of(struct synthetic *synthetic, struct str name) {
        return &synthetic->buckets[hash_bytes(hash_seed(), name.p, name.n) & synthetic->mask];
}

static void synthetic_forget(struct synthetic *synthetic, uint32_t i) {
        struct slot *slot = &synthetic->slots[i];
        uint32_t *at = bucket_of(synthetic, str_n(slot->name, slot->name_n));
        while (*at != i)
                at = &synthetic->slots[*at].chain;

        *at = slot->chain;
        unlink_slot(synthetic, i);
        free(slot->name);
        slot->name = NULL;
        slot->chain = 0;
}

/* A slot for a new name: one never used, else the one unused the longest if that is long enough. 0: none. */
static uint32_t vacant_slot(struct synthetic *synthetic, uint64_t now_ns) {
        if (synthetic->bound < synthetic->size)
                return ++synthetic->bound;
        uint32_t i = synthetic->oldest;
        if (i == 0 || now_ns < synthetic->slots[i].used_ns ||
            now_ns - synthetic->slots[i].used_ns < synthetic->grace_ns)
                return 0;
        synthetic_forget(synthetic, i);
        return i;
}

static int bind_new(struct synthetic *synthetic, struct str name, uint32_t *bucket, uint64_t now_ns, uint32_t *ret) {
        cleanup(free_ptr) char *copy = str_dup(name);
        if (!copy)
                return -ENOMEM;

        uint32_t i = vacant_slot(synthetic, now_ns);
        if (i == 0)
                return -ENOSPC;

        struct slot *slot = &synthetic->slots[i];
        slot->name = take_ptr(&copy);
        slot->name_n = (uint8_t)name.n;
        slot->generation++;
        slot->chain = *bucket; /* read after vacant_slot(), which may have changed this very chain */
        *bucket = i;
        link_newest(synthetic, i);
        *ret = i;

        return 0;
}

int synthetic_bind(struct synthetic *synthetic, const struct host *name, uint64_t now_ns, struct addr *ret_v4,
                   struct addr *ret_v6) {
        struct str text = host_str(name);
        int r = 0;

        pthread_mutex_lock(&synthetic->lock);
        uint32_t *bucket = bucket_of(synthetic, text);
        uint32_t i = *bucket;
        while (i && !str_eq(str_n(synthetic->slots[i].name, synthetic->slots[i].name_n), text))
                i = synthetic->slots[i].chain;

        if (i == 0) {
                r = bind_new(synthetic, text, bucket, now_ns, &i);
        } else if (synthetic->slots[i].holds == 0 && synthetic->newest != i) {
                unlink_slot(synthetic, i);
                link_newest(synthetic, i);
        }

        if (r == 0)
                synthetic->slots[i].used_ns = now_ns;

        pthread_mutex_unlock(&synthetic->lock);
        if (r == 0)
                addresses_of(i, ret_v4, ret_v6);

        return r;
}

int synthetic_acquire(struct synthetic *synthetic, const struct addr *addr, uint64_t now_ns, struct host *ret_name,
                      struct synthetic_hold *ret_hold) {
        int r = -ENOENT;

        pthread_mutex_lock(&synthetic->lock);
        uint32_t i = slot_of(synthetic, addr);
        struct slot *slot = &synthetic->slots[i];
        if (i && slot->name) {
                *ret_name = (struct host){ .kind = HOST_NAME, .name_n = slot->name_n };
                memcpy(ret_name->name, slot->name, (size_t)slot->name_n + 1);
                *ret_hold = (struct synthetic_hold){ .index = i, .generation = slot->generation };

                if (slot->holds++ == 0)
                        unlink_slot(synthetic, i);

                slot->used_ns = now_ns;
                r = 0;
        }

        pthread_mutex_unlock(&synthetic->lock);
        return r;
}

void synthetic_release(struct synthetic *synthetic, struct synthetic_hold *hold, uint64_t now_ns) {
        if (hold->index == 0)
                return;

        pthread_mutex_lock(&synthetic->lock);
        struct slot *slot = &synthetic->slots[hold->index];
        if (slot->generation == hold->generation && slot->holds > 0) {
                slot->used_ns = now_ns;
                if (--slot->holds == 0)
                        link_newest(synthetic, hold->index);
        }

        pthread_mutex_unlock(&synthetic->lock);
        *hold = (struct synthetic_hold){ 0 };
}

bool synthetic_lookup(struct synthetic *synthetic, const struct addr *addr, struct host *ret_name) {
        struct synthetic_hold hold;
        uint64_t now = clock_ns();
        if (synthetic_acquire(synthetic, addr, now, ret_name, &hold) < 0)
                return false;
        synthetic_release(synthetic, &hold, now);
        return true;
}

int synthetic_new(const struct synthetic_settings *settings, struct synthetic **ret, struct err *err) {
        uint32_t size = settings->size ? settings->size : SYNTHETIC_SIZE;
        if (size > SYNTHETIC_SIZE_MAX)
                return err_set(err, EINVAL, "%u synthetic addresses do not fit their network (at most %u)", size,
                               SYNTHETIC_SIZE_MAX);

        cleanup(synthetic_freep) struct synthetic *s = calloc(1, sizeof *s);
        if (!s)
                return err_memory(err);

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
                return err_memory(err);

        *ret = take_ptr(&s);
        return 0;
}

void synthetic_free(struct synthetic *synthetic) {
        if (!synthetic)
                return;

        for (uint32_t i = 1; synthetic->slots && i <= synthetic->bound; i++)
                free(synthetic->slots[i].name);

        free(synthetic->slots);
        free(synthetic->buckets);
        pthread_mutex_destroy(&synthetic->lock);
        free(synthetic);
}

void synthetic_freep(struct synthetic **synthetic) {
        synthetic_free(*synthetic);
}
