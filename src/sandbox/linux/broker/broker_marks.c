/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker_marks.h"

#include "base/clock.h"
#include "sandbox/linux/broker/broker_ops.h"
#include "sandbox/linux/broker/broker_talk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct marks {
        const struct plan *plan;
        uint32_t closed; /* as far as is known here */
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

/* Closed, or an error: nobody is there any more, or it could not be. */
static int ask_to_close(const struct held *held, const char *path, uint32_t wanted) {
        struct marks *marks = held->broker->marks;
        struct event event = { .wall_us = clock_wall_us(),
                               .kind = EVENT_RATCHET,
                               .rule = RULE_NONE,
                               .reason = REASON_RATCHET,
                               .allowed = true,
                               .connection = wanted,
                               .method = STR("read"),
                               .path = str_of(path) };
        uint32_t closed = 0;

        if (talk_ask(held->broker->talk, &event) < 0 ||
            talk_await(held->broker->talk, event.generation, NULL, &closed, NULL) < 0)
                return -EACCES;

        marks->closed |= closed;
        if ((wanted & ~marks->closed) != 0)
                return -EACCES;

        return 0;
}

static int close_ratchets(struct held *held, const char *path, uint32_t wanted) {
        wanted &= ~held->broker->marks->closed;
        if (wanted)
                return ask_to_close(held, path, wanted);

        return 0;
}

/* --- judging --- */

/* A program that may only write could turn the file into a program that reads its rest. A file that is truncated
 * reveals nothing. */
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
