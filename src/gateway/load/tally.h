/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a program can repeat without end and without being let through, refusals and questions for names, must not fill
 * the audit until its rotation drops what matters. Of records that are the same in everything but time and connection
 * the first TALLY_FIRST of a window are kept as they are; the others become one record with a count. Records that
 * differ (made-up names) are held to a rate that all workers share; beyond it they are counted by kind and reason.
 * Nothing is lost silently: the counts of all records add up to the number of attempts.
 */
#include "base/map.h"
#include "ipc/event.h"
#include "net/loop.h"

#include <stdatomic.h>

#define TALLY_FIRST 64
#define TALLY_WINDOW_NS (10 * NS_PER_SECOND)
#define TALLY_PER_SECOND 20 /* records of their own, in the long run */
#define TALLY_BURST 2000    /* and at once */

struct tally_rate {               /* of one sandbox; zeroed at the start */
        atomic_uint_fast64_t due; /* when all records so far would be paid for, at TALLY_PER_SECOND */
};

struct tally {
        struct loop *loop;
        struct tally_rate *rate;
        void (*record)(struct tally *t, const struct event *ev);
        struct map entries; /* by what makes records the same, encoded */
        struct timer window;
};

/* record() is called with what is to be recorded, from inside tally_event() and when a window ends. */
void tally_init(struct tally *tally, struct loop *loop, struct tally_rate *rate,
                void (*record)(struct tally *tally, const struct event *ev));
/* Records what is counted. */
void tally_done(struct tally *tally);
/* Whether records of this kind are counted at all. */
static inline bool tally_wants(const struct event *ev) {
        if (ev->count > 1) /* counted already */
                return false;
        if (ev->kind == EVENT_DNS || ev->kind == EVENT_PACKET)
                return true;
        return !ev->allowed && (ev->kind == EVENT_REQUEST || ev->kind == EVENT_TUNNEL_OPEN);
}
void tally_event(struct tally *tally, const struct event *ev);
