/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "net/loop_memory.h"

#include <assert.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The base runs without libevent's locks: each loop belongs to one thread, and other threads reach it only through the
 * posted list, which has its own mutex and an eventfd. Timers do not use libevent's heap: durations come from a handful
 * of settings, so a list per duration is sorted by itself, and a restart (on every byte of a tunnel) is two unlinked
 * and four linked pointers. One libevent timer stands for the earliest of all lists.
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

        struct watch wake;
        int wake_fd;
        pthread_mutex_t lock;
        struct link posted; /* under lock */
};

static_assert(sizeof(struct event) <= sizeof(((struct watch *)0)->event), "a libevent event fits");

static struct event *event_of(struct watch *w) {
        return (struct event *)(void *)w->event;
}

uint64_t loop_now(struct loop *l) {
        if (l->now == 0)
                l->now = clock_ns();
        return l->now;
}

/* watches */

static void on_event(evutil_socket_t fd, short what, void *argument) {
        (void)fd;
        struct watch *w = argument;
        unsigned ready = 0;
        if (what & EV_READ)
                ready |= WATCH_READ;
        if (what & EV_WRITE)
                ready |= WATCH_WRITE;
        if (what & EV_CLOSED)
                ready |= WATCH_CLOSED | WATCH_READ;
        w->fn(w, ready);
}

static int start(struct loop *l, struct watch *w, int fd, short what, watch_fn *fn) {
        w->fn = fn;
        if (event_assign(event_of(w), l->base, fd, what, on_event, w) < 0)
                return -EINVAL;
        return event_add(event_of(w), NULL) < 0 ? (errno ? -errno : -EIO) : 0;
}

int watch_start_edge(struct loop *l, struct watch *w, int fd, watch_fn *fn) {
        return start(l, w, fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, fn);
}

int watch_start_level(struct loop *l, struct watch *w, int fd, unsigned interest, watch_fn *fn) {
        watch_stop(w);
        short what = EV_PERSIST;
        if (interest & WATCH_READ)
                what |= EV_READ;
        if (interest & WATCH_WRITE)
                what |= EV_WRITE;
        return interest ? start(l, w, fd, what, fn) : 0;
}

void watch_stop(struct watch *w) {
        if (!w->fn)
                return;
        event_del(event_of(w));
        w->fn = NULL;
}

/* timers */

static uint64_t rounded(uint64_t ns) {
        uint64_t step = ns < NS_PER_SECOND        ? 5 * NS_PER_MS
                        : ns < 10 * NS_PER_SECOND ? 50 * NS_PER_MS
                                                  : NS_PER_SECOND / 2;
        return (ns / step + (ns % step != 0)) * step;
}

static struct queue *queue_for(struct loop *l, uint64_t duration) {
        for (size_t i = 0; i < l->queues.n; i++)
                if (l->queues.p[i]->duration == duration)
                        return l->queues.p[i];
        struct queue *q = calloc(1, sizeof *q);
        if (!q || vec_push(&l->queues, q) < 0) {
                free(q);
                return NULL;
        }
        q->duration = duration;
        link_init(&q->timers);
        return q;
}

void timer_init(struct timer *t, struct loop *l, timer_fn *fn) {
        link_init(&t->link);
        t->loop = l;
        t->fn = fn;
        t->due = 0;
}

void timer_start(struct timer *t, uint64_t ns) {
        struct loop *l = t->loop;
        link_remove(&t->link);
        struct queue *q = queue_for(l, rounded(ns));
        if (!q) {
                /* Out of memory for a new duration: the next shorter one. Too early is safe, never is not. */
                for (size_t i = 0; i < l->queues.n; i++)
                        if (!q || (l->queues.p[i]->duration <= ns && l->queues.p[i]->duration > q->duration))
                                q = l->queues.p[i];
                if (!q)
                        return;
        }
        t->due = loop_now(l) + q->duration;
        link_append(&q->timers, &t->link);
}

void timer_stop(struct timer *t) {
        link_remove(&t->link);
}

static void run_timers(struct loop *l) {
        for (size_t i = 0; i < l->queues.n; i++) {
                struct link *head = &l->queues.p[i]->timers;
                while (!link_is_empty(head)) {
                        struct timer *t = link_owner(head->next, struct timer, link);
                        if (t->due > loop_now(l))
                                break;
                        link_remove(&t->link);
                        t->fn(t);
                }
        }
}

static void on_alarm(evutil_socket_t fd, short what, void *argument) {
        (void)fd;
        (void)what;
        struct loop *l = argument;
        l->alarm_due = 0;
}

/* The alarm only ends the sleep; run_timers() does the work. It is left alone while it is early enough. */
static void set_alarm(struct loop *l) {
        uint64_t first = UINT64_MAX;
        for (size_t i = 0; i < l->queues.n; i++) {
                struct link *head = &l->queues.p[i]->timers;
                if (link_is_empty(head))
                        continue;
                uint64_t due = link_owner(head->next, struct timer, link)->due;
                first = due < first ? due : first;
        }
        if (first == UINT64_MAX || (l->alarm_due && l->alarm_due <= first))
                return;
        uint64_t now = clock_ns();
        uint64_t us = first > now ? (first - now) / 1000 + 1 : 0;
        struct timeval tv = { .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };
        if (event_add(l->alarm, &tv) == 0)
                l->alarm_due = first;
}

/* tasks */

void loop_defer(struct loop *l, struct task *t) {
        if (link_is_empty(&t->link))
                link_append(&l->deferred, &t->link);
}

void loop_soon(struct loop *l, struct task *t) {
        if (link_is_empty(&t->link))
                link_append(&l->soon, &t->link);
}

static void run_tasks(struct link *list) {
        while (!link_is_empty(list)) {
                struct task *t = link_owner(list->next, struct task, link);
                link_remove(&t->link);
                t->fn(t);
        }
}

void loop_post(struct loop *l, struct task *t) {
        pthread_mutex_lock(&l->lock);
        bool first = link_is_empty(&l->posted);
        link_append(&l->posted, &t->link);
        pthread_mutex_unlock(&l->lock);
        if (first)
                while (eventfd_write(l->wake_fd, 1) < 0 && errno == EINTR)
                        ;
}

static void on_wake(struct watch *w, unsigned ready) {
        (void)ready;
        struct loop *l = link_owner(w, struct loop, wake);
        eventfd_t n;
        eventfd_read(l->wake_fd, &n);
        struct link work;
        pthread_mutex_lock(&l->lock);
        link_take_all(&l->posted, &work);
        pthread_mutex_unlock(&l->lock);
        run_tasks(&work);
}

/* running */

void loop_turn(struct loop *l, bool wait) {
        struct link soon;
        link_take_all(&l->soon, &soon);
        bool sleep = wait && link_is_empty(&soon) && link_is_empty(&l->deferred) &&
                     !__atomic_load_n(&l->stopped, __ATOMIC_ACQUIRE);
        set_alarm(l);
        l->now = 0;
        event_base_loop(l->base, sleep ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
        run_timers(l);
        run_tasks(&soon);
        run_tasks(&l->deferred);
}

void loop_drain(struct loop *l) {
        run_tasks(&l->deferred);
}

void loop_run(struct loop *l) {
        while (!__atomic_load_n(&l->stopped, __ATOMIC_ACQUIRE))
                loop_turn(l, true);
}

void loop_stop(struct loop *l) {
        __atomic_store_n(&l->stopped, true, __ATOMIC_RELEASE);
        while (eventfd_write(l->wake_fd, 1) < 0 && errno == EINTR)
                ;
}

static struct event_base *new_base(void) {
        struct event_config *config = event_config_new();
        if (!config)
                return NULL;
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
        event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE);
        struct event_base *base = event_base_new_with_config(config);
        event_config_free(config);
        return base;
}

int loop_new(struct loop **ret, struct err *e) {
        cleanup(loop_freep) struct loop *l = calloc(1, sizeof *l);
        if (!l)
                return err_set(e, ENOMEM, "no memory for an event loop");
        link_init(&l->deferred);
        link_init(&l->soon);
        link_init(&l->posted);
        pthread_mutex_init(&l->lock, NULL);
        l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (l->wake_fd < 0)
                return err_errno(e, "cannot create the event loop's wake-up descriptor");
        loop_memory_init();
        l->base = new_base();
        if (!l->base)
                return err_set(e, ENOTSUP, "cannot create an event loop with edge-triggered events");
        l->alarm = event_new(l->base, -1, 0, on_alarm, l);
        if (!l->alarm)
                return err_set(e, ENOMEM, "no memory for an event loop");
        int r = watch_start_level(l, &l->wake, l->wake_fd, WATCH_READ, on_wake);
        if (r < 0)
                return err_set(e, -r, "cannot watch the event loop's wake-up descriptor");
        *ret = take_ptr(&l);
        return 0;
}

void loop_free(struct loop *l) {
        if (!l)
                return;
        watch_stop(&l->wake);
        if (l->wake_fd >= 0)
                close(l->wake_fd);
        if (l->alarm)
                event_free(l->alarm);
        if (l->base)
                event_base_free(l->base);
        for (size_t i = 0; i < l->queues.n; i++)
                free(l->queues.p[i]);
        vec_done(&l->queues);
        pthread_mutex_destroy(&l->lock);
        free(l);
}

void loop_freep(struct loop **l) {
        loop_free(*l);
}
