/* SPDX-License-Identifier: Apache-2.0 */
#include "api/capture.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

static void hear(struct capture *c) {
        struct supervise_message m;
        int fd = -1, r = supervise_receive(c->child.link, &m, &fd);
        close_fd(&fd);
        if (r == -EAGAIN)
                return;
        if (r <= 0) {
                c->linked = false;
                return;
        }
        const struct bailey_violation v = { .operation = m.host,
                                            .target = m.target,
                                            .rule = m.rule,
                                            .detail = m.detail,
                                            .count = m.number,
                                            .process = m.process };
        switch (m.kind) {
        case SUPERVISE_ASK:
                c->on_ask(c->arg, c->child.link, &m);
                break;
        case SUPERVISE_VIOLATION:
                (void)result_add_violation(c->result, &v); /* without memory the list is shorter; the audit is whole */
                break;
        case SUPERVISE_NOTICE:
                if (c->result->notice[0])
                        result_add_notice(c->result, "\n");
                result_add_notice(c->result, m.detail);
                break;
        case SUPERVISE_END:
                c->end = m;
                c->told = true;
                break;
        default:
                break;
        }
}

static void end_early(struct capture *c) {
        c->stopped = true;
        c->kill_at_ns = clock_ns() + CAPTURE_PATIENCE_MS * NS_PER_MS;
        shutdown(c->child.link, SHUT_WR);
}

/* After the end was told, pipes that stay open are somebody else's: they do not keep us. */
static int time_left(struct capture *c) {
        if (c->told && !c->kill_at_ns)
                c->kill_at_ns = clock_ns() + CAPTURE_PATIENCE_MS * NS_PER_MS;
        if (!c->kill_at_ns)
                return -1;
        uint64_t now = clock_ns();
        return now < c->kill_at_ns ? (int)((c->kill_at_ns - now) / NS_PER_MS) + 1 : 0;
}

void capture_serve(struct capture *c) {
        struct child *child = &c->child;
        c->linked = true;
        while (child->out >= 0 || child->err >= 0 || c->linked) {
                bool ending = c->kill_at_ns != 0;
                struct pollfd fds[] = {
                        { .fd = child->out, .events = POLLIN },
                        { .fd = child->err, .events = POLLIN },
                        { .fd = c->linked ? child->link : -1, .events = POLLIN },
                        { .fd = ending ? -1 : c->stop[0], .events = POLLIN },
                        { .fd = ending ? -1 : c->stop[1], .events = POLLIN },
                };
                int wait = time_left(c);
                if (wait == 0)
                        return;
                if (poll(fds, sizeof fds / sizeof *fds, wait) < 0)
                        continue; /* a signal */
                if (fds[0].revents && !output_read(&c->result->out, child->out))
                        close_fd(&child->out);
                if (fds[1].revents && !output_read(&c->result->err, child->err))
                        close_fd(&child->err);
                if (fds[3].revents || fds[4].revents)
                        end_early(c);
                else if (fds[2].revents)
                        hear(c);
        }
}

void capture_done(struct capture *c) {
        (void)child_wait(&c->child, c->stopped ? 500 : CAPTURE_PATIENCE_MS);
        child_done(&c->child);
}
