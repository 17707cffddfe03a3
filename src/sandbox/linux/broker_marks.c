/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker_marks.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "ipc/event.h"
#include "sandbox/linux/broker_ops.h"
#include "sandbox/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

struct marks {
        const struct plan *plan;
        uint32_t closed; /* as far as is known here */
        uint32_t asked;  /* how many questions */
};

int marks_new(const struct plan *plan, struct marks **ret) {
        struct marks *marks = NULL;

        if (plan->marks.n > 0) {
                marks = calloc(1, sizeof *marks);
                if (!marks)
                        return -ENOMEM;
                marks->plan = plan;
        }

        *ret = marks;
        return 0;
}

/* --- asking --- */

static int put_question(const struct held *held, const char *path, uint32_t wanted) {
        struct marks *marks = held->broker->marks;
        const struct event event = { .wall_us = clock_wall_us(),
                                     .kind = EVENT_RATCHET,
                                     .rule = RULE_NONE,
                                     .reason = REASON_RATCHET,
                                     .allowed = true,
                                     .connection = wanted,
                                     .generation = ++marks->asked,
                                     .method = STR("read"),
                                     .path = str_of(path) };
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        struct pollfd room = { .fd = held->broker->events_fd, .events = POLLOUT };
        int r = event_encode(&batch, &event);

        while (r == 0 && send(held->broker->events_fd, batch.p, batch.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
                if (errno == EAGAIN)
                        (void)poll(&room, 1, -1);
                else if (errno != EINTR)
                        r = -errno;
        }

        return r;
}

/* Closed, or an error: nobody is there any more, or it could not be. */
static int await_answer(const struct held *held, uint32_t wanted) {
        struct marks *marks = held->broker->marks;
        struct pollfd answer = { .fd = held->broker->events_fd, .events = POLLIN };

        for (;;) {
                struct mark_answer got = { 0 };
                ssize_t n = recv(answer.fd, &got, sizeof got, MSG_DONTWAIT);

                if (n < 0 && errno == EAGAIN)
                        (void)poll(&answer, 1, -1);
                else if (n < 0 && errno == EINTR)
                        continue;
                else if (n != sizeof got)
                        return -EACCES;
                else if (got.number == marks->asked) {
                        marks->closed |= got.closed;
                        return (wanted & ~marks->closed) == 0 ? 0 : -EACCES;
                }
        }
}

static int close_ratchets(struct held *held, const char *path, uint32_t wanted) {
        int r;

        wanted &= ~held->broker->marks->closed;
        if (wanted == 0)
                return 0;
        r = put_question(held, path, wanted);
        return r < 0 ? -EACCES : await_answer(held, wanted);
}

/* --- judging --- */

/* Whoever only writes could make a program of it that reads its rest. What loses its content on the way shows none. */
int judge_marked(struct held *held, const char *path, int flags) {
        bool emptied = (flags & O_TRUNC) && (flags & O_ACCMODE) == O_WRONLY;

        if (!held->broker->marks || emptied)
                return 0;
        return close_ratchets(held, path, plan_marks_of(held->broker->marks->plan, path));
}

/* Directories on the way to a mark: what is below one that is moved loses the name that is marked. */
static uint32_t marks_escaping(const struct marks *marks, const char *from, const char *to) {
        uint32_t found = 0;

        for (size_t i = 0; i < marks->plan->marks.n; i++)
                if (broker_move_escapes(marks->plan->marks.p[i].pattern, from, to))
                        found |= UINT32_C(1) << marks->plan->marks.p[i].ratchet;
        return found;
}

int judge_marked_move(struct held *held, const char *from, const char *to, bool directory) {
        const struct marks *marks = held->broker->marks;
        uint32_t wanted;

        if (!marks)
                return 0;

        wanted = plan_marks_of(marks->plan, from) & ~plan_marks_of(marks->plan, to);
        if (directory)
                wanted |= marks_escaping(marks, from, to);

        return close_ratchets(held, from, wanted);
}
