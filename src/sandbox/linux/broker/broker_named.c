/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker_named.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"
#include "sandbox/linux/broker/broker_talk.h"
#include "sandbox/named.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GUARDS_BYTES_MAX = 16 << 20, QUESTIONS_MAX = 8 };

struct news {
        int watch;       /* -1: none */
        uint64_t due_ns; /* without a watch: from when on every change asks */
};

int news_new(uint64_t due_ns, struct news **ret) {
        struct news *news = calloc(1, sizeof *news);

        if (!news)
                return -ENOMEM;

        news->watch = -1;
        news->due_ns = due_ns;
        *ret = news;
        return 0;
}

static bool news_due(const struct news *news) {
        int waiting = 0;

        if (news->watch < 0)
                return clock_ns() >= news->due_ns;
        return ioctl(news->watch, FIONREAD, &waiting) < 0 || waiting > 0;
}

/* --- guards --- */

/* The next text with its NUL, or NULL. */
static const char *take_text(struct str *rest) {
        const char *text = rest->p, *end = rest->n ? memchr(rest->p, '\0', rest->n) : NULL;

        if (!end)
                return NULL;

        *rest = str_skip(*rest, (size_t)(end - text) + 1);
        return text;
}

static int take_guards(struct closed *closed, struct str rest) {
        VEC(struct plan_guard) guards = { 0 };
        int r = 0;

        while (rest.n && r == 0) {
                bool opening = rest.p[0] == NAMED_OPENING;
                struct plan_guard guard = { .kind = (uint8_t)(rest.p[0] - '0'), .why = NAMED_WHY, .root = "" };

                rest = str_skip(rest, 1);
                guard.path = take_text(&rest);
                guard.link = take_text(&rest);
                if (!guard.path || guard.path[0] != '/' || !guard.link || (!opening && guard.kind >= PLAN_GUARD_KINDS))
                        r = -EBADMSG;
                else
                        r = opening ? closed_add_opening(closed, guard.path) : vec_push(&guards, guard);
        }

        if (r == 0)
                r = closed_add(closed, guards.p, guards.n);

        vec_done(&guards);
        return r;
}

static int read_guards(struct closed *closed, int fd) {
        cleanup(buf_done) struct buf bytes = BUF(GUARDS_BYTES_MAX);
        int r;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;

        r = fd_read_all(fd, &bytes);
        if (r < 0)
                return r;

        return take_guards(closed, buf_str(&bytes));
}

/* --- questions --- */

/* The answer that it got. Negative: the supervisor is gone, and soon everything here; or what it said cannot be kept.
 */
static int news_ask(const struct broker *broker) {
        struct event event = { .wall_us = clock_wall_us(),
                               .kind = EVENT_NAMED,
                               .rule = RULE_NONE,
                               .reason = REASON_NONE,
                               .allowed = true };
        cleanup(close_fd) int fd = -1;
        uint32_t answer = NAMED_NOTHING;
        int r;

        r = talk_ask(broker->talk, &event);
        if (r == -EAGAIN) /* no thread can be made that would read answers: the sandbox may have as many as it can */
                return NAMED_FAILED;
        if (r == 0)
                r = talk_await(broker->talk, event.generation, NULL, &answer, &fd);
        if (r < 0)
                return r;

        switch (answer) {
        case NAMED_WATCH:
                close_fd(&broker->news->watch);
                broker->news->watch = take_fd(&fd);
                if (broker->news->watch < 0)
                        return -EBADMSG;

                return NAMED_WATCH;
        case NAMED_MORE:
                r = fd >= 0 ? read_guards(broker->closed, fd) : -EBADMSG;
                if (r < 0)
                        return r;

                return NAMED_MORE;
        case NAMED_UNWATCHED:
        case NAMED_FAILED:
                close_fd(&broker->news->watch);
                return (int)answer;
        default:
                return NAMED_NOTHING;
        }
}

int news_look(const struct broker *broker) {
        int r;

        if (!broker->news || !news_due(broker->news))
                return 0;

        /* With a watch it is asked once more, and as often as somebody changes something meanwhile. */
        for (int i = 0; i < QUESTIONS_MAX; i++) {
                r = news_ask(broker);
                if (r == NAMED_FAILED)
                        return -EAGAIN;
                if (r < 0)
                        _exit(1); /* whoever waits is refused, and so is whatever comes */
                if (r == NAMED_WATCH || r == NAMED_UNWATCHED)
                        continue;
                if (broker->news->watch < 0 || !news_due(broker->news))
                        return 0;
        }

        return 0;
}
