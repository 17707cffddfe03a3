/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker_talk.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/broker/tracee.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

/* How often a thread that waits looks whether its caller still does: nothing tells it. */
enum { LOOK_MS = 200, SLOTS = TALK_HELD_MAX + 2 };

struct slot {
        uint32_t number; /* 0: free */
        bool answered;
        uint32_t value;
        int fd;
};

struct talk {
        int fd;
        pthread_mutex_t lock;
        pthread_cond_t answered;
        bool listening, ended; /* the thread that reads answers: it has begun; it is gone */
        uint32_t last;
        struct slot slots[SLOTS];
};

int talk_new(int events_fd, struct talk **ret) {
        struct talk *talk = calloc(1, sizeof *talk);
        pthread_condattr_t steady;

        if (!talk)
                return -ENOMEM;

        talk->fd = events_fd;
        pthread_mutex_init(&talk->lock, NULL);
        pthread_condattr_init(&steady);
        pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        pthread_cond_init(&talk->answered, &steady);
        pthread_condattr_destroy(&steady);

        *ret = talk;
        return 0;
}

/* --- answers --- */

static struct slot *slot_find(struct talk *talk, uint32_t number) {
        for (size_t i = 0; i < SLOTS; i++)
                if (talk->slots[i].number == number)
                        return &talk->slots[i];
        return NULL;
}

/* Takes the descriptor. An answer that nobody waits for any more is dropped. */
static void answer_take(struct talk *talk, const struct broker_answer *answer, int fd) {
        struct slot *slot;

        pthread_mutex_lock(&talk->lock);
        slot = answer->number ? slot_find(talk, answer->number) : NULL;
        if (slot && !slot->answered) {
                slot->answered = true;
                slot->value = answer->value;
                slot->fd = take_fd(&fd);
                pthread_cond_broadcast(&talk->answered);
        }

        pthread_mutex_unlock(&talk->lock);
        close_fd(&fd);
}

/* False: nothing more will come. */
static bool answer_read(struct talk *talk) {
        struct pollfd ready = { .fd = talk->fd, .events = POLLIN };
        struct broker_answer answer = { 0 };
        int fd = -1;
        size_t n_fds = 0;
        ssize_t n;

        if (poll(&ready, 1, -1) < 0)
                return errno == EINTR;

        n = fd_receive(talk->fd, &answer, sizeof answer, &fd, 1, &n_fds);
        if (n == -EAGAIN || n == -EINTR)
                return true;

        if (n != sizeof answer) {
                if (n_fds)
                        close_fd(&fd);
                return false;
        }

        answer_take(talk, &answer, n_fds ? fd : -1);
        return true;
}

static void *talk_listen(void *arg) {
        struct talk *talk = arg;

        while (answer_read(talk))
                ;

        pthread_mutex_lock(&talk->lock);
        talk->ended = true;
        pthread_cond_broadcast(&talk->answered);
        pthread_mutex_unlock(&talk->lock);

        return NULL;
}

/* With the lock. */
static int talk_begin(struct talk *talk) {
        pthread_t thread;
        int r;

        if (talk->listening && talk->ended)
                return -EPIPE;
        if (talk->listening)
                return 0;

        r = pthread_create(&thread, NULL, talk_listen, talk);
        if (r != 0)
                return -r;

        pthread_detach(thread);
        talk->listening = true;

        return 0;
}

/* --- questions --- */

/* The call waits until there is room. */
static int talk_send(const struct talk *talk, const struct event *event) {
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        struct pollfd room = { .fd = talk->fd, .events = POLLOUT };
        int r = event_encode(&batch, event);

        while (r == 0 && send(talk->fd, batch.p, batch.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
                if (errno == EAGAIN)
                        (void)poll(&room, 1, -1);
                else if (errno != EINTR)
                        r = -errno;
        }

        return r;
}

/* Opens that wait for a person leave one slot to ratchets, and all of them leave one to what is named. */
static size_t slots_for(enum event_kind kind) {
        if (kind == EVENT_HELD)
                return TALK_HELD_MAX;
        if (kind == EVENT_NAMED)
                return SLOTS;

        return SLOTS - 1;
}

static int slot_take(struct talk *talk, enum event_kind kind, uint32_t *ret_number) {
        int r = talk_begin(talk);

        if (r < 0)
                return r;

        for (size_t i = 0; i < slots_for(kind); i++) {
                if (talk->slots[i].number)
                        continue;

                if (++talk->last == 0)
                        talk->last = 1;

                talk->slots[i] = (struct slot){ .number = talk->last, .fd = -1 };
                *ret_number = talk->last;
                return 0;
        }

        return -EBUSY;
}

static void slot_leave(struct talk *talk, uint32_t number) {
        pthread_mutex_lock(&talk->lock);
        struct slot *slot = slot_find(talk, number);
        if (slot) {
                close_fd(&slot->fd);
                slot->number = 0;
        }

        pthread_mutex_unlock(&talk->lock);
}

int talk_ask(struct talk *talk, struct event *event) {
        int r;

        pthread_mutex_lock(&talk->lock);
        r = slot_take(talk, event->kind, &event->generation);
        pthread_mutex_unlock(&talk->lock);
        if (r < 0)
                return r;

        r = talk_send(talk, event);
        if (r < 0)
                slot_leave(talk, event->generation);

        return r;
}

/* --- waiting --- */

static void talk_withdraw(struct talk *talk, uint32_t number) {
        const struct event gone = { .wall_us = clock_wall_us(),
                                    .kind = EVENT_HELD,
                                    .rule = RULE_NONE,
                                    .generation = number,
                                    .method = STR("gone") };

        (void)talk_send(talk, &gone);
}

/* With the lock: until there is news, or for a moment. */
static void wait_for_news(struct talk *talk, bool with_looks) {
        struct timespec until;

        if (!with_looks) {
                pthread_cond_wait(&talk->answered, &talk->lock);
                return;
        }

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
                until.tv_sec++;
                until.tv_nsec -= 1000000000L;
        }

        (void)pthread_cond_timedwait(&talk->answered, &talk->lock, &until);
}

/* With the lock. */
static int await_slot(struct talk *talk, const struct slot *slot, const struct tracee *tracee) {
        while (!slot->answered) {
                if (talk->ended)
                        return -EPIPE;
                if (tracee && !tracee_waits(tracee))
                        return -ESRCH;

                wait_for_news(talk, tracee != NULL);
        }

        return 0;
}

int talk_await(struct talk *talk, uint32_t number, const struct tracee *tracee, uint32_t *ret_value, int *ret_fd) {
        struct slot *slot;
        int r;

        pthread_mutex_lock(&talk->lock);
        slot = slot_find(talk, number);
        if (slot)
                r = await_slot(talk, slot, tracee);
        else
                r = -EINVAL;
        if (slot && r == 0) {
                *ret_value = slot->value;
                if (ret_fd)
                        *ret_fd = take_fd(&slot->fd);
        }

        pthread_mutex_unlock(&talk->lock);
        slot_leave(talk, number);
        if (r == -ESRCH)
                talk_withdraw(talk, number);

        return r;
}
