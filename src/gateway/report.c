/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/report.h"

#include "base/clock.h"

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
        for (;;) {
                ssize_t put = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (put >= 0)
                        return 0;
                if (errno != EINTR)
                        return errno == ENOBUFS ? -EAGAIN : -errno;
        }
}

static void on_writable(struct watch *w, unsigned ready);

static void block(struct report *r) {
        if (r->blocked)
                return;
        r->blocked = true;
        if (watch_start_level(r->loop, &r->writable, r->fd, WATCH_WRITE, on_writable) < 0)
                r->failed = true;
}

static int send_waiting(struct report *r) {
        while (!link_is_empty(&r->waiting)) {
                struct batch *b = link_owner(r->waiting.next, struct batch, link);
                int s = send_bytes(r->fd, str_n(b->bytes, b->n));
                if (s < 0)
                        return s;
                link_remove(&b->link);
                r->waiting_bytes -= b->n;
                free(b);
        }
        return 0;
}

static void tell_lost(struct report *r) {
        if (r->untold == 0)
                return;
        char text[96];
        int n = snprintf(text, sizeof text, "%llu requests were refused while events could not be delivered",
                         (unsigned long long)r->untold);
        r->untold = 0;
        report_event(
            r, &(struct event){
                   .kind = EVENT_NOTE, .rule = RULE_NONE, .reason = REASON_AUDIT, .detail = str_n(text, (size_t)n) });
}

static void flush(struct report *r) {
        if (r->failed)
                return;
        int s = send_waiting(r);
        if (s == 0 && r->batch.n > 0) {
                s = send_bytes(r->fd, buf_str(&r->batch));
                if (s == 0)
                        buf_clear(&r->batch);
        }
        if (s == -EAGAIN)
                block(r);
        else if (s < 0)
                r->failed = true; /* the supervisor is gone: the control socket will say so too */
}

static void on_writable(struct watch *w, unsigned ready) {
        (void)ready;
        struct report *r = link_owner(w, struct report, writable);
        watch_stop(&r->writable);
        r->blocked = false;
        flush(r);
        if (!r->blocked)
                tell_lost(r);
}

static void on_flush(struct task *t) {
        struct report *r = link_owner(t, struct report, flush);
        if (r->blocked)
                return;
        flush(r);
        timer_start(&r->pause, GATHER_NS);
}

static void on_pause_over(struct timer *t) {
        struct report *r = link_owner(t, struct report, pause);
        if (r->batch.n > 0)
                loop_defer(r->loop, &r->flush);
}

/* The batch is full and cannot be sent now: it joins those that wait. */
static int set_aside(struct report *r) {
        struct batch *b = malloc(sizeof *b + r->batch.n);
        if (!b)
                return -ENOMEM;
        b->n = r->batch.n;
        memcpy(b->bytes, r->batch.p, b->n);
        link_append(&r->waiting, &b->link);
        r->waiting_bytes += b->n;
        buf_clear(&r->batch);
        return 0;
}

static void add(struct report *r, const struct event *ev) {
        if (r->failed)
                return;
        struct event stamped = *ev;
        if (stamped.wall_us == 0)
                stamped.wall_us = clock_wall_us();
        int s = event_encode(&r->batch, &stamped);
        if (s == -EMSGSIZE) {
                if (!r->blocked)
                        flush(r);
                if (r->batch.n > 0 && set_aside(r) < 0)
                        s = -ENOMEM;
                else
                        s = event_encode(&r->batch, &stamped);
        }
        if (s < 0)
                r->failed = true; /* what cannot be recorded must not go on */
        if (!timer_is_running(&r->pause) || r->batch.n >= GATHER_BYTES)
                loop_defer(r->loop, &r->flush);
}

static void add_tallied(struct tally *t, const struct event *ev) {
        add(link_owner(t, struct report, tally), ev);
}

void report_event(struct report *r, const struct event *ev) {
        if (ev->reason == REASON_AUDIT && ev->kind != EVENT_NOTE && report_is_stuck(r))
                r->untold++; /* one line for all of them, later: refusals must not fill the memory */
        else if (tally_wants(ev))
                tally_event(&r->tally, ev);
        else
                add(r, ev);
}

bool report_is_stuck(const struct report *r) {
        return r->failed || r->waiting_bytes > REPORT_PENDING_MAX;
}

int report_init(struct report *r, struct loop *l, int fd, struct tally_rate *rate) {
        *r = (struct report){ .loop = l, .fd = fd, .batch = BUF(EVENT_BATCH_MAX) };
        link_init(&r->waiting);
        task_init(&r->flush, on_flush);
        timer_init(&r->pause, l, on_pause_over);
        tally_init(&r->tally, l, rate, add_tallied);
        return 0;
}

/* The last events: the supervisor reads them while it waits for the end. */
static void flush_last(struct report *r) {
        enum { ROUNDS = 20, ROUND_MS = 10 };

        for (int i = 0; i < ROUNDS && !r->failed && (r->batch.n > 0 || !link_is_empty(&r->waiting)); i++) {
                struct pollfd room = { .fd = r->fd, .events = POLLOUT };
                (void)poll(&room, 1, ROUND_MS);
                flush(r);
        }
}

void report_done(struct report *r) {
        if (!r->loop)
                return;
        tally_done(&r->tally);
        flush(r);
        flush_last(r);
        watch_stop(&r->writable);
        task_cancel(&r->flush);
        timer_stop(&r->pause);
        while (!link_is_empty(&r->waiting)) {
                struct batch *b = link_owner(r->waiting.next, struct batch, link);
                link_remove(&b->link);
                free(b);
        }
        buf_done(&r->batch);
}
