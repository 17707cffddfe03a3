/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tally.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdlib.h>

/* More different records than these in one window are not told apart; the rate holds them all the same. */
enum { ENTRIES_MAX = 4096 };

static const struct str too_many = STR("too many to be recorded one by one");

struct entry {
        uint32_t recorded, counted;
};

/* One record more at this moment? forced: it is written in any case, and paid for by those that follow. */
static bool take_share(struct tally *t, bool forced) {
        const uint64_t each = NS_PER_SECOND / TALLY_PER_SECOND;
        uint64_t now = loop_now(t->loop);
        uint_fast64_t due = atomic_load_explicit(&t->rate->due, memory_order_relaxed), next;
        do {
                next = (due > now ? due : now) + each;
                if (!forced && next - now > each * TALLY_BURST)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(&t->rate->due, &due, next, memory_order_relaxed,
                                                        memory_order_relaxed));
        return true;
}

/* What makes two records the same. */
static struct event identity(const struct event *ev) {
        struct event same = *ev;
        same.wall_us = same.connection = same.bytes_in = same.bytes_out = same.duration_us = 0;
        same.count = 0;
        return same;
}

static struct event kind_of(const struct event *ev) {
        return (struct event){ .kind = ev->kind,
                               .via = ev->via,
                               .scheme = ev->scheme,
                               .reason = ev->reason,
                               .rule = RULE_NONE,
                               .generation = ev->generation,
                               .allowed = ev->allowed,
                               .detail = too_many };
}

static struct entry *find(struct tally *t, const struct event *same, struct buf *key) {
        buf_clear(key);
        return event_encode(key, same) < 0 ? NULL : map_get(&t->entries, buf_str(key));
}

/* NULL when there is no memory. */
static struct entry *make(struct tally *t, const struct buf *key) {
        struct entry *en = key->n ? calloc(1, sizeof *en) : NULL;
        if (!en || map_add(&t->entries, buf_str(key), en) < 0) {
                free(en);
                return NULL;
        }
        if (!timer_is_running(&t->window))
                timer_start(&t->window, TALLY_WINDOW_NS);
        return en;
}

/* Nothing of its like is on record, and it comes too late to be: one of many. */
static struct entry *find_many(struct tally *t, const struct event *ev, struct buf *key) {
        struct event many = kind_of(ev);
        struct entry *en = find(t, &many, key);
        return en ? en : make(t, key);
}

void tally_event(struct tally *t, const struct event *ev) {
        cleanup(buf_done) struct buf key = BUF(EVENT_BATCH_MAX);
        struct event same = identity(ev);
        struct entry *en = find(t, &same, &key);
        if ((!en || en->recorded < TALLY_FIRST) && take_share(t, false)) {
                if (!en && t->entries.n < ENTRIES_MAX)
                        en = make(t, &key);
                if (en)
                        en->recorded++;
                t->record(t, ev);
                return;
        }
        if (!en)
                en = find_many(t, ev, &key);
        if (en && en->counted < UINT32_MAX)
                en->counted++;
        else
                t->record(t, ev); /* no memory to count it: as it is */
}

static void record_counted(struct tally *t, struct str key, const struct entry *en) {
        struct event ev;
        if (en->counted == 0 || event_decode(&key, &ev) != 1)
                return;
        ev.count = en->counted;
        take_share(t, true);
        t->record(t, &ev);
}

static void close_window(struct tally *t) {
        struct map entries = t->entries;
        struct str key;
        void *value;
        t->entries = (struct map){ 0 };
        for (size_t i = 0; map_next(&entries, &i, &key, &value);)
                record_counted(t, key, value);
        map_done(&entries, free);
}

static void on_window(struct timer *timer) {
        close_window(link_owner(timer, struct tally, window));
}

void tally_init(struct tally *t, struct loop *l, struct tally_rate *rate,
                void (*record)(struct tally *t, const struct event *ev)) {
        *t = (struct tally){ .loop = l, .rate = rate, .record = record };
        timer_init(&t->window, l, on_window);
}

void tally_done(struct tally *t) {
        timer_stop(&t->window);
        close_window(t);
}
