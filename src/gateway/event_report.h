/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Events of one worker on their way to the supervisor: encoded at once into a batch. The first after a pause is sent at
 * the end of the turn; under load a batch then gathers for a few milliseconds, since every message wakes the supervisor
 * and costs more than the events in it. When the supervisor does not take them they wait, up to a limit; beyond it
 * report_is_stuck() says so and no new work is begun, since nothing may happen that is not on record. Events are never
 * dropped silently.
 */
#include "base/buf.h"
#include "gateway/load/tally.h"
#include "ipc/event.h"
#include "net/loop.h"

#define REPORT_PENDING_MAX (4u << 20)

struct report {
        struct loop *loop;
        int fd;
        struct buf batch;    /* being filled */
        struct link waiting; /* full batches */
        size_t waiting_bytes;
        struct task flush;
        struct timer pause; /* runs since a batch was sent: the next one gathers */
        struct watch writable;
        struct tally tally;
        uint64_t untold; /* refusals that could not be recorded one by one */
        bool blocked, failed;
};

int report_init(struct report *report, struct loop *loop, int fd, struct tally_rate *rate);
/* Sends what it can without waiting. */
void report_done(struct report *report);
/* Adds one event (wall_us is filled in when 0); what may be repeated without end goes through gateway/load/tally.h. */
void report_event(struct report *report, const struct event *ev);
bool report_is_stuck(const struct report *report);
