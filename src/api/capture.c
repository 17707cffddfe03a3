/* SPDX-License-Identifier: Apache-2.0 */
#include "api/capture.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

static void capture_hear(struct capture *capture) {
        struct supervise_message message;
        int r = supervise_receive(capture->child.link, &message, NULL);

        if (r == -EAGAIN)
                return;

        if (r <= 0) {
                capture->linked = false;
                return;
        }

        const struct bailey_violation violation = { .operation = message.host,
                                                    .target = message.target,
                                                    .rule = message.rule,
                                                    .detail = message.detail,
                                                    .count = message.number,
                                                    .process = message.process };

        switch (message.kind) {
        case SUPERVISE_ASK:
                capture->on_ask(capture->arg, capture->child.link, &message);
                break;
        case SUPERVISE_VIOLATION:
                (void)result_add_violation(capture->result,
                                           &violation); /* without memory the list is shorter; the audit is whole */
                break;
        case SUPERVISE_NOTICE:
                if (capture->result->notice[0])
                        result_add_notice(capture->result, "\n");
                result_add_notice(capture->result, message.detail);
                break;
        case SUPERVISE_END:
                capture->end = message;
                capture->told = true;
                break;
        default:
                break;
        }
}

static void end_early(struct capture *capture) {
        capture->stopped = true;
        capture->kill_at_ns = clock_ns() + CAPTURE_PATIENCE_MS * NS_PER_MS;
        shutdown(capture->child.link, SHUT_WR);
}

/* After the end was told, pipes that stay open are somebody else's: they do not keep us. */
static int time_left(struct capture *capture) {
        if (capture->told && !capture->kill_at_ns)
                capture->kill_at_ns = clock_ns() + CAPTURE_PATIENCE_MS * NS_PER_MS;
        if (!capture->kill_at_ns)
                return -1;
        uint64_t now = clock_ns();
        if (now < capture->kill_at_ns)
                return (int)((capture->kill_at_ns - now) / NS_PER_MS) + 1;

        return 0;
}

void capture_serve(struct capture *capture) {
        struct child *child = &capture->child;

        capture->linked = true;
        while (child->out >= 0 || child->err >= 0 || capture->linked) {
                struct pollfd fds[] = {
                        { .fd = child->out, .events = POLLIN },       { .fd = child->err, .events = POLLIN },
                        { .fd = child->link, .events = POLLIN },      { .fd = capture->stop[0], .events = POLLIN },
                        { .fd = capture->stop[1], .events = POLLIN },
                };
                if (!capture->linked)
                        fds[2].fd = -1;
                if (capture->kill_at_ns) /* it is ending already */
                        fds[3].fd = fds[4].fd = -1;

                int wait = time_left(capture);
                if (wait == 0)
                        return;
                if (poll(fds, sizeof fds / sizeof *fds, wait) < 0)
                        continue; /* a signal */
                if (fds[0].revents && !output_read(&capture->result->out, child->out))
                        close_fd(&child->out);
                if (fds[1].revents && !output_read(&capture->result->err, child->err))
                        close_fd(&child->err);

                if (fds[3].revents || fds[4].revents)
                        end_early(capture);
                else if (fds[2].revents)
                        capture_hear(capture);
        }
}

void capture_done(struct capture *capture) {
        (void)child_wait(&capture->child, capture->stopped ? 500 : CAPTURE_PATIENCE_MS);
        child_done(&capture->child);
}
