/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/event_report.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { GATHER_BYTES = EVENT_BATCH_MAX / 2 }; /* a batch of this size is sent without waiting */
#define GATHER_NS (5 * NS_PER_MS)

struct batch {
        struct link link;
        size_t n;
        char bytes[];
};

/* 0, -EAGAIN, or an error that will not go away. */
static int send_bytes(int fd, struct str bytes) {
        int r = fd_send(fd, bytes, NULL, 0);
        if (r == -ENOBUFS)
                return -EAGAIN;

        return r;
}

static void on_writable(struct watch *w, unsigned ready);

static void report_block(struct report *report) {
        if (report->blocked)
                return;
        report->blocked = true;
        if (watch_start_level(report->loop, &report->writable, report->fd, WATCH_WRITE, on_writable) < 0)
                report->failed = true;
}

static int send_waiting(struct report *report) {
        while (!link_is_empty(&report->waiting)) {
                struct batch *batch = link_owner(report->waiting.next, struct batch, link);
                int s = send_bytes(report->fd, str_n(batch->bytes, batch->n));
                if (s < 0)
                        return s;

                link_remove(&batch->link);
                report->waiting_bytes -= batch->n;
                free(batch);
        }

        return 0;
}

static void tell_lost(struct report *report) {
        if (report->untold == 0)
                return;

        char text[96];
        int n = snprintf(text, sizeof text, "%llu requests were refused while events could not be delivered",
                         (unsigned long long)report->untold);
        report->untold = 0;
        report_event(report, &(struct event){ .kind = EVENT_NOTE,
                                              .rule = RULE_NONE,
                                              .reason = REASON_AUDIT,
                                              .detail = str_n(text, (size_t)n) });
}

static void report_flush(struct report *report) {
        if (report->failed)
                return;

        int s = send_waiting(report);
        if (s == 0 && report->batch.n > 0) {
                s = send_bytes(report->fd, buf_str(&report->batch));
                if (s == 0)
                        buf_clear(&report->batch);
        }

        if (s == -EAGAIN)
                report_block(report);
        else if (s < 0)
                report->failed = true; /* the supervisor is gone: the control socket will say so too */
}

static void on_writable(struct watch *watch, unsigned ready) {
        (void)ready;
        struct report *report = link_owner(watch, struct report, writable);
        watch_stop(&report->writable);
        report->blocked = false;
        report_flush(report);
        if (!report->blocked)
                tell_lost(report);
}

static void on_flush(struct task *task) {
        struct report *report = link_owner(task, struct report, flush);
        if (report->blocked)
                return;
        report_flush(report);
        timer_start(&report->pause, GATHER_NS);
}

static void on_pause_over(struct timer *timer) {
        struct report *report = link_owner(timer, struct report, pause);
        if (report->batch.n > 0)
                loop_defer(report->loop, &report->flush);
}

/* The batch is full and cannot be sent now: it joins those that wait. */
static int set_aside(struct report *report) {
        struct batch *batch = malloc(sizeof *batch + report->batch.n);
        if (!batch)
                return -ENOMEM;

        batch->n = report->batch.n;
        memcpy(batch->bytes, report->batch.p, batch->n);
        link_append(&report->waiting, &batch->link);
        report->waiting_bytes += batch->n;
        buf_clear(&report->batch);

        return 0;
}

static void report_add(struct report *report, const struct event *ev) {
        if (report->failed)
                return;

        struct event stamped = *ev;
        if (stamped.wall_us == 0)
                stamped.wall_us = clock_wall_us();

        int s = event_encode(&report->batch, &stamped);
        if (s == -EMSGSIZE) {
                if (!report->blocked)
                        report_flush(report);
                if (report->batch.n > 0 && set_aside(report) < 0)
                        s = -ENOMEM;
                else
                        s = event_encode(&report->batch, &stamped);
        }

        if (s < 0)
                report->failed = true; /* what cannot be recorded must not go on */
        if (!timer_is_running(&report->pause) || report->batch.n >= GATHER_BYTES)
                loop_defer(report->loop, &report->flush);
}

static void add_tallied(struct tally *t, const struct event *ev) {
        report_add(link_owner(t, struct report, tally), ev);
}

void report_event(struct report *report, const struct event *ev) {
        if (ev->reason == REASON_AUDIT && ev->kind != EVENT_NOTE && report_is_stuck(report))
                report->untold++; /* one line for all of them, later: refusals must not fill the memory */
        else if (tally_wants(ev))
                tally_event(&report->tally, ev);
        else
                report_add(report, ev);
}

bool report_is_stuck(const struct report *report) {
        return report->failed || report->waiting_bytes > REPORT_PENDING_MAX;
}

int report_init(struct report *report, struct loop *loop, int fd, struct tally_rate *rate) {
        *report = (struct report){ .loop = loop, .fd = fd, .batch = BUF(EVENT_BATCH_MAX) };
        link_init(&report->waiting);
        task_init(&report->flush, on_flush);
        timer_init(&report->pause, loop, on_pause_over);
        tally_init(&report->tally, loop, rate, add_tallied);
        return 0;
}

/* The last events: the supervisor reads them while it waits for the end. */
static void flush_last(struct report *report) {
        enum { ROUNDS = 20, ROUND_MS = 10 };

        for (int i = 0; i < ROUNDS && !report->failed && (report->batch.n > 0 || !link_is_empty(&report->waiting));
             i++) {
                struct pollfd room = { .fd = report->fd, .events = POLLOUT };

                (void)poll(&room, 1, ROUND_MS);
                report_flush(report);
        }
}

void report_done(struct report *report) {
        if (!report->loop)
                return;

        tally_done(&report->tally);
        report_flush(report);
        flush_last(report);
        watch_stop(&report->writable);
        task_cancel(&report->flush);
        timer_stop(&report->pause);

        while (!link_is_empty(&report->waiting)) {
                struct batch *batch = link_owner(report->waiting.next, struct batch, link);

                link_remove(&batch->link);
                free(batch);
        }

        buf_done(&report->batch);
}
