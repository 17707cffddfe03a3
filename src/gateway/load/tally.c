/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/tally.h"

#include "base/bounds.h"
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
static bool take_share(struct tally *tally, bool forced) {
        const uint64_t each = NS_PER_SECOND / TALLY_PER_SECOND;
        uint64_t now = loop_now(tally->loop);
        uint_fast64_t due = atomic_load_explicit(&tally->rate->due, memory_order_relaxed), next;

        do {
                next = max_of(due, now) + each;
                if (!forced && next - now > each * TALLY_BURST)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(&tally->rate->due, &due, next, memory_order_relaxed,
                                                        memory_order_relaxed));

        return true;
}

/* What makes two records the same. */
static struct event tally_identity(const struct event *ev) {
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

static struct entry *tally_find(struct tally *tally, const struct event *same, struct buf *key) {
        buf_clear(key);
        if (event_encode(key, same) < 0)
                return NULL;

        return map_get(&tally->entries, buf_str(key));
}

/* NULL when there is no memory. */
static struct entry *tally_make(struct tally *tally, const struct buf *key) {
        struct entry *en = key->n ? calloc(1, sizeof *en) : NULL;
        if (!en || map_add(&tally->entries, buf_str(key), en) < 0) {
                free(en);
                return NULL;
        }

        if (!timer_is_running(&tally->window))
                timer_start(&tally->window, TALLY_WINDOW_NS);

        return en;
}

/* Nothing of its like is on record, and it comes too late to be: one of many. */
static struct entry *find_many(struct tally *tally, const struct event *ev, struct buf *key) {
        struct event many = kind_of(ev);
        struct entry *en = tally_find(tally, &many, key);
        if (en)
                return en;

        return tally_make(tally, key);
}

void tally_event(struct tally *tally, const struct event *ev) {
        cleanup(buf_done) struct buf key = BUF(EVENT_BATCH_MAX);
        struct event same = tally_identity(ev);
        struct entry *en = tally_find(tally, &same, &key);
        if ((!en || en->recorded < TALLY_FIRST) && take_share(tally, false)) {
                if (!en && tally->entries.n < ENTRIES_MAX)
                        en = tally_make(tally, &key);
                if (en)
                        en->recorded++;

                tally->record(tally, ev);
                return;
        }

        if (!en)
                en = find_many(tally, ev, &key);

        if (en && en->counted < UINT32_MAX)
                en->counted++;
        else
                tally->record(tally, ev); /* no memory to count it: as it is */
}

static void record_counted(struct tally *tally, struct str key, const struct entry *en) {
        struct event ev;
        if (en->counted == 0 || event_decode(&key, &ev) != 1)
                return;
        ev.count = en->counted;
        take_share(tally, true);
        tally->record(tally, &ev);
}

static void close_window(struct tally *tally) {
        struct map entries = tally->entries;
        struct str key;
        void *value;
        tally->entries = (struct map){ 0 };
        for (size_t i = 0; map_next(&entries, &i, &key, &value);)
                record_counted(tally, key, value);
        map_done(&entries, free);
}

static void on_window(struct timer *timer) {
        close_window(link_owner(timer, struct tally, window));
}

void tally_init(struct tally *tally, struct loop *loop, struct tally_rate *rate,
                void (*record)(struct tally *tally, const struct event *ev)) {
        *tally = (struct tally){ .loop = loop, .rate = rate, .record = record };
        timer_init(&tally->window, loop, on_window);
}

void tally_done(struct tally *tally) {
        timer_stop(&tally->window);
        close_window(tally);
}
