/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "net/loop_memory.h"
#include "net/loop_os.h"

#include <assert.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/*
 * The base runs without libevent's locks: each loop belongs to one thread, and other threads reach it only through the
 * posted list, which has its own mutex and a descriptor that wakes it. Timers do not use libevent's heap: durations
 * come from a handful of settings, so a list per duration is sorted by itself, and a restart (on every byte of a
 * tunnel) is two unlinked and four linked pointers. One libevent timer stands for the earliest of all lists.
 */
struct queue {
        uint64_t duration;
        struct link timers; /* earliest first */
};

struct loop {
        struct event_base *base;
        struct event *alarm;
        uint64_t alarm_due; /* 0: not set */
        uint64_t now;       /* 0: to be read again */
        VEC(struct queue *) queues;
        struct link deferred, soon;
        bool stopped;

        struct {
                loop_idle_fn *fn;
                void *arg;
                struct timer timer; /* stopped while it is idle */
                atomic_bool is;
                unsigned turns, begun; /* of this loop; when the timer was started */
        } idle;

        struct watch wake;
        int wake_fd;
        pthread_mutex_t lock;
        struct link posted; /* under lock */
};

static_assert(sizeof(struct event) <= sizeof(((struct watch *)0)->event), "a libevent event fits");

static struct event *event_of(struct watch *watch) {
        return (struct event *)(void *)watch->event;
}

uint64_t loop_now(struct loop *loop) {
        if (loop->now == 0)
                loop->now = clock_ns();
        return loop->now;
}

/* watches */

static void on_event(evutil_socket_t fd, short what, void *argument) {
        (void)fd;
        struct watch *watch = argument;
        unsigned ready = 0;

        if (what & EV_READ)
                ready |= WATCH_READ;
        if (what & EV_WRITE)
                ready |= WATCH_WRITE;
        if (what & EV_CLOSED)
                ready |= WATCH_CLOSED | WATCH_READ;

        watch->fn(watch, ready);
}

static int loop_start(struct loop *loop, struct watch *watch, int fd, short what, watch_fn *fn) {
        watch->fn = fn;
        if (event_assign(event_of(watch), loop->base, fd, what, on_event, watch) < 0)
                return -EINVAL;
        if (event_add(event_of(watch), NULL) == 0)
                return 0;

        if (errno)
                return -errno;

        return -EIO;
}

int watch_start_edge(struct loop *loop, struct watch *watch, int fd, watch_fn *fn) {
        short what = EV_READ | EV_WRITE | EV_ET | EV_PERSIST;

        if (loop_tells_ends)
                what |= EV_CLOSED;
        return loop_start(loop, watch, fd, what, fn);
}

int watch_start_level(struct loop *loop, struct watch *watch, int fd, unsigned interest, watch_fn *fn) {
        watch_stop(watch);
        short what = EV_PERSIST;
        if (interest & WATCH_READ)
                what |= EV_READ;
        if (interest & WATCH_WRITE)
                what |= EV_WRITE;
        if (interest)
                return loop_start(loop, watch, fd, what, fn);

        return 0;
}

void watch_stop(struct watch *watch) {
        if (!watch->fn)
                return;
        event_del(event_of(watch));
        watch->fn = NULL;
}

/* timers */

static uint64_t loop_rounded(uint64_t ns) {
        uint64_t step;
        if (ns < NS_PER_SECOND)
                step = 5 * NS_PER_MS;
        else if (ns < 10 * NS_PER_SECOND)
                step = 50 * NS_PER_MS;
        else
                step = NS_PER_SECOND / 2;

        return (ns / step + (ns % step != 0)) * step;
}

static struct queue *queue_for(struct loop *loop, uint64_t duration) {
        for (size_t i = 0; i < loop->queues.n; i++)
                if (loop->queues.p[i]->duration == duration)
                        return loop->queues.p[i];

        struct queue *q = calloc(1, sizeof *q);
        if (!q || vec_push(&loop->queues, q) < 0) {
                free(q);
                return NULL;
        }

        q->duration = duration;
        link_init(&q->timers);

        return q;
}

void timer_init(struct timer *timer, struct loop *loop, timer_fn *fn) {
        link_init(&timer->link);
        timer->loop = loop;
        timer->fn = fn;
        timer->due = 0;
}

void timer_start(struct timer *timer, uint64_t ns) {
        struct loop *loop = timer->loop;

        link_remove(&timer->link);
        struct queue *queue = queue_for(loop, loop_rounded(ns));
        if (!queue) {
                /* Out of memory for a new duration: the next shorter one. Too early is safe, never is not. */
                for (size_t i = 0; i < loop->queues.n; i++)
                        if (!queue ||
                            (loop->queues.p[i]->duration <= ns && loop->queues.p[i]->duration > queue->duration))
                                queue = loop->queues.p[i];
                if (!queue)
                        return;
        }

        timer->due = loop_now(loop) + queue->duration;
        link_append(&queue->timers, &timer->link);
}

void timer_stop(struct timer *timer) {
        link_remove(&timer->link);
}

static void run_timers(struct loop *loop) {
        for (size_t i = 0; i < loop->queues.n; i++) {
                struct link *head = &loop->queues.p[i]->timers;
                while (!link_is_empty(head)) {
                        struct timer *timer = link_owner(head->next, struct timer, link);
                        if (timer->due > loop_now(loop))
                                break;

                        link_remove(&timer->link);
                        timer->fn(timer);
                }
        }
}

static void on_alarm(evutil_socket_t fd, short what, void *argument) {
        (void)fd;
        (void)what;
        struct loop *loop = argument;
        loop->alarm_due = 0;
}

/* The alarm only ends the sleep; run_timers() does the work. It is left alone while it is early enough. */
static void set_alarm(struct loop *loop) {
        uint64_t first = UINT64_MAX;

        for (size_t i = 0; i < loop->queues.n; i++) {
                struct link *head = &loop->queues.p[i]->timers;
                if (link_is_empty(head))
                        continue;

                uint64_t due = link_owner(head->next, struct timer, link)->due;
                if (due < first)
                        first = due;
        }

        if (first == UINT64_MAX || (loop->alarm_due && loop->alarm_due <= first))
                return;

        uint64_t now = clock_ns();
        uint64_t us = first > now ? (first - now) / 1000 + 1 : 0;
        struct timeval tv = { .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };
        if (event_add(loop->alarm, &tv) == 0)
                loop->alarm_due = first;
}

/* idleness */

static void idle_start(struct loop *loop) {
        loop->idle.begun = loop->idle.turns;
        timer_start(&loop->idle.timer, LOOP_IDLE_MS * NS_PER_MS);
}

/* The turn that this timer makes is one, and every other one was work. So a busy loop looks twice a second, and does
 * nothing for it otherwise. */
static void on_idle_timer(struct timer *timer) {
        struct loop *loop = link_owner(timer, struct loop, idle.timer);

        if (loop->idle.turns - loop->idle.begun > 1) {
                idle_start(loop);
                return;
        }

        atomic_store_explicit(&loop->idle.is, true, memory_order_release);
        loop->idle.fn(loop->idle.arg);
}

static void idle_ends(struct loop *loop) {
        loop->idle.turns++;
        if (!loop->idle.fn || timer_is_running(&loop->idle.timer))
                return;

        atomic_store_explicit(&loop->idle.is, false, memory_order_release);
        idle_start(loop);
}

void loop_when_idle(struct loop *loop, loop_idle_fn *fn, void *arg) {
        loop->idle.fn = fn;
        loop->idle.arg = arg;
        timer_init(&loop->idle.timer, loop, on_idle_timer);
        idle_start(loop);
        loop->now = 0; /* its thread may start much later */
}

bool loop_is_idle(const struct loop *loop) {
        return atomic_load_explicit(&loop->idle.is, memory_order_acquire);
}

/* tasks */

void loop_defer(struct loop *loop, struct task *task) {
        if (link_is_empty(&task->link))
                link_append(&loop->deferred, &task->link);
}

void loop_soon(struct loop *loop, struct task *task) {
        if (link_is_empty(&task->link))
                link_append(&loop->soon, &task->link);
}

static void run_tasks(struct link *list) {
        while (!link_is_empty(list)) {
                struct task *task = link_owner(list->next, struct task, link);
                link_remove(&task->link);
                task->fn(task);
        }
}

void loop_post(struct loop *loop, struct task *task) {
        pthread_mutex_lock(&loop->lock);
        bool first = link_is_empty(&loop->posted);
        link_append(&loop->posted, &task->link);
        pthread_mutex_unlock(&loop->lock);
        if (first)
                loop_wake_raise(loop->wake_fd);
}

static void on_wake(struct watch *watch, unsigned ready) {
        (void)ready;
        struct loop *loop = link_owner(watch, struct loop, wake);
        struct link work;

        loop_wake_clear(loop->wake_fd);
        pthread_mutex_lock(&loop->lock);
        link_take_all(&loop->posted, &work);
        pthread_mutex_unlock(&loop->lock);
        run_tasks(&work);
}

/* running */

void loop_turn(struct loop *loop, bool wait) {
        struct link soon;

        link_take_all(&loop->soon, &soon);
        bool sleep = wait && link_is_empty(&soon) && link_is_empty(&loop->deferred) &&
                     !__atomic_load_n(&loop->stopped, __ATOMIC_ACQUIRE);
        set_alarm(loop);
        loop->now = 0;
        event_base_loop(loop->base, sleep ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
        idle_ends(loop);
        run_timers(loop);
        run_tasks(&soon);
        run_tasks(&loop->deferred);
}

void loop_drain(struct loop *loop) {
        run_tasks(&loop->deferred);
}

void loop_run(struct loop *loop) {
        while (!__atomic_load_n(&loop->stopped, __ATOMIC_ACQUIRE))
                loop_turn(loop, true);
}

void loop_stop(struct loop *loop) {
        __atomic_store_n(&loop->stopped, true, __ATOMIC_RELEASE);
        loop_wake_raise(loop->wake_fd);
}

static struct event_base *new_base(void) {
        struct event_config *config = event_config_new();
        if (!config)
                return NULL;

        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
        event_config_require_features(config, loop_tells_ends ? EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE : EV_FEATURE_ET);

        struct event_base *base = event_base_new_with_config(config);
        event_config_free(config);

        return base;
}

int loop_new(struct loop **ret, struct err *err) {
        cleanup(loop_freep) struct loop *l = calloc(1, sizeof *l);
        if (!l)
                return err_set(err, ENOMEM, "no memory for an event loop");

        link_init(&l->deferred);
        link_init(&l->soon);
        link_init(&l->posted);
        pthread_mutex_init(&l->lock, NULL);
        l->wake_fd = loop_wake_new();
        if (l->wake_fd < 0)
                return err_errno(err, "cannot create the event loop's wake-up descriptor");

        loop_memory_init();
        l->base = new_base();
        if (!l->base)
                return err_set(err, ENOTSUP, "cannot create an event loop with edge-triggered events");

        l->alarm = event_new(l->base, -1, 0, on_alarm, l);
        if (!l->alarm)
                return err_set(err, ENOMEM, "no memory for an event loop");

        int r = watch_start_level(l, &l->wake, l->wake_fd, WATCH_READ, on_wake);
        if (r < 0)
                return err_set(err, -r, "cannot watch the event loop's wake-up descriptor");

        *ret = take_ptr(&l);
        return 0;
}

void loop_free(struct loop *loop) {
        if (!loop)
                return;

        watch_stop(&loop->wake);
        if (loop->wake_fd >= 0)
                close(loop->wake_fd);
        if (loop->alarm)
                event_free(loop->alarm);
        if (loop->base)
                event_base_free(loop->base);

        for (size_t i = 0; i < loop->queues.n; i++)
                free(loop->queues.p[i]);

        vec_done(&loop->queues);
        pthread_mutex_destroy(&loop->lock);
        free(loop);
}

void loop_freep(struct loop **loop) {
        loop_free(*loop);
}
