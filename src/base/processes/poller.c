/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/poller.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>

void poller_add(struct poller *poller, const struct poller_part *part) {
        assert(poller->n_parts < POLLER_PARTS_MAX);
        poller->parts[poller->n_parts++].part = *part;
}

void poller_watch(struct poller *poller, int fd, short events) {
        const struct pollfd wanted = { .fd = fd, .events = events };

        if (fd >= 0 && vec_push(&poller->fds, wanted) < 0)
                poller->no_memory = true;
}

void poller_until(struct poller *poller, uint64_t due_ns) {
        if (due_ns < poller->due_ns)
                poller->due_ns = due_ns;
}

short poller_ready(const struct poller *poller, int fd) {
        size_t first = poller->parts[poller->stepping].first, end = first + poller->parts[poller->stepping].n;

        for (size_t i = first; fd >= 0 && i < end; i++)
                if (poller->fds.p[i].fd == fd)
                        return poller->fds.p[i].revents;
        return 0;
}

static void poller_collect(struct poller *poller) {
        poller->fds.n = 0;
        poller->due_ns = CLOCK_NEVER;
        poller->no_memory = false;

        for (size_t i = 0; i < poller->n_parts; i++) {
                const struct poller_part *part = &poller->parts[i].part;
                poller->parts[i].first = poller->fds.n;
                part->watch(part->arg, poller);
                poller->parts[i].n = poller->fds.n - poller->parts[i].first;
        }
}

int poller_round(struct poller *poller, struct err *err) {
        poller_collect(poller);
        if (poller->no_memory)
                return err_memory(err);

        int got = poll(poller->fds.p, poller->fds.n, clock_left_ms(poller->due_ns));
        if (got < 0 && errno != EINTR)
                return err_errno(err, "cannot wait");
        if (got < 0) /* poll() leaves them as they were */
                for (size_t i = 0; i < poller->fds.n; i++)
                        poller->fds.p[i].revents = 0;

        for (poller->stepping = 0; poller->stepping < poller->n_parts; poller->stepping++) {
                const struct poller_part *part = &poller->parts[poller->stepping].part;
                int r = part->step(part->arg, poller, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

void poller_done(struct poller *poller) {
        vec_done(&poller->fds);
}
