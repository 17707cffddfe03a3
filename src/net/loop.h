/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One event loop per thread, on libevent, which stays inside loop.c.
 *
 *   watch  a descriptor, registered once: edge-triggered watches hear of each change once and remember it
 *   timer  costs a few pointer writes to start, restart or stop: a queue per duration, so nothing is ever sorted
 *   task   work for the end of this turn (freeing, flushing) or for the next one (when a turn's share is used up)
 *   post   the only function here that other threads may call (with loop_stop)
 *
 * A turn: sleep, run watches, run timers, run posted work, run deferred tasks. Things that callbacks further up the
 * stack may still touch are freed by a deferred task, never at once.
 */
#include "base/err.h"
#include "net/list.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

int loop_new(struct loop **ret, struct err *err);
/* Everything that was started on it must have been stopped. */
void loop_free(struct loop *loop);
void loop_freep(struct loop **loop);
/* Runs until loop_stop(). */
void loop_run(struct loop *loop);
/* One turn; with wait false it does not sleep. */
void loop_turn(struct loop *loop, bool wait);
/* Only the deferred tasks, for the end: a peer that still sends is ignored. */
void loop_drain(struct loop *loop);
/* From any thread or from a callback. */
void loop_stop(struct loop *loop);
/* Calls fn each time that nothing has come for LOOP_IDLE_MS, from the loop's thread. */
enum { LOOP_IDLE_MS = 500 };
typedef void loop_idle_fn(void *arg);
void loop_when_idle(struct loop *loop, loop_idle_fn *fn, void *arg);
/* From any thread: whether nothing has come since then. Always false without a function. */
bool loop_is_idle(const struct loop *loop);
/* Monotonic nanoseconds, read once a turn. */
uint64_t loop_now(struct loop *loop);

enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_CLOSED = 4 /* the peer sent its last byte */ };

struct watch;
typedef void watch_fn(struct watch *w, unsigned ready);
struct watch {
        watch_fn *fn;
        uint64_t event[16]; /* a struct event */
};

/* Edge-triggered, read and write, until stopped. fn is called after each change with what became ready. */
int watch_start_edge(struct loop *loop, struct watch *watch, int fd, watch_fn *fn);
/* Level-triggered for `interest`. May be called again on a running watch to change the interest; 0 pauses it. */
int watch_start_level(struct loop *loop, struct watch *watch, int fd, unsigned interest, watch_fn *fn);
/* Before the descriptor is closed. Harmless on a watch that was never started but is zeroed. */
void watch_stop(struct watch *watch);

struct timer;
typedef void timer_fn(struct timer *t);
struct timer {
        struct link link; /* in its queue */
        struct loop *loop;
        timer_fn *fn;
        uint64_t due;
};

void timer_init(struct timer *timer, struct loop *loop, timer_fn *fn);
/* Starts or restarts. Durations are rounded up: to 5 ms below 1 s, to 50 ms below 10 s, else to 1/2 s. */
void timer_start(struct timer *timer, uint64_t ns);
void timer_stop(struct timer *timer);
static inline bool timer_is_running(const struct timer *timer) {
        return !link_is_empty(&timer->link);
}

struct task;
typedef void task_fn(struct task *t);
struct task {
        struct link link;
        task_fn *fn;
};

static inline void task_init(struct task *task, task_fn *fn) {
        link_init(&task->link);
        task->fn = fn;
}
/* At the end of this turn, once, in order. A task that is queued already stays where it is. The task may free itself.
 */
void loop_defer(struct loop *loop, struct task *task);
/* In the next turn, after the descriptors were looked at once more, without sleeping. */
void loop_soon(struct loop *loop, struct task *task);
static inline void task_cancel(struct task *task) {
        link_remove(&task->link);
}

/* From any thread: fn runs on the loop's thread. The task belongs to the loop until it runs. Always succeeds. */
void loop_post(struct loop *loop, struct task *task);
