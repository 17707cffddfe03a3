/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include "base/alloc.h"
#include "net/loop_os.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct attempt {
        struct dial *dial;
        struct stream *stream; /* NULL: not started or over */
        struct addr addr;
};

struct dial {
        struct loop *loop;
        dial_fn *done;
        void *owner;
        uint16_t port;
        uint8_t n, next; /* addresses, and how many were begun */
        uint8_t running;
        int error; /* the most telling one so far */
        struct timer stagger, limit;
        struct task begin, destroy;
        struct attempt attempts[];
};

/* Alternating between the families, beginning with the first address's own. Order inside a family is kept. */
static void dial_interleave(struct dial *dial, const struct addr *addrs, size_t n) {
        size_t at[2] = { 0, 0 };
        uint8_t family[2] = { addrs[0].family, addrs[0].family == ADDR_V4 ? ADDR_V6 : ADDR_V4 };
        unsigned turn = 0;

        while (dial->n < n) {
                size_t *i = &at[turn];
                while (*i < n && addrs[*i].family != family[turn])
                        ++*i;

                if (*i < n)
                        dial->attempts[dial->n++].addr = addrs[(*i)++];

                turn = !turn;
        }
}

static int dial_rank(int error) {
        static const int telling[] = { -ETIMEDOUT,    -ENETUNREACH, -EHOSTUNREACH, -ECONNRESET,
                                       -ECONNREFUSED, -EMFILE,      -ENFILE };
        for (int i = 0; i < (int)(sizeof telling / sizeof telling[0]); i++)
                if (telling[i] == error)
                        return i + 2;
        if (error)
                return 1;

        return 0;
}

static void dial_note(struct dial *dial, int error) {
        if (dial_rank(error) > dial_rank(dial->error))
                dial->error = error;
}

static void dial_destroy(struct task *task) {
        free(link_owner(task, struct dial, destroy));
}

void dial_cancel(struct dial *dial) {
        if (!dial)
                return;

        timer_stop(&dial->stagger);
        timer_stop(&dial->limit);
        task_cancel(&dial->begin);

        for (size_t i = 0; i < dial->n; i++) {
                stream_close(dial->attempts[i].stream);
                dial->attempts[i].stream = NULL;
        }

        dial->done = NULL;
        loop_defer(dial->loop, &dial->destroy);
}

static void dial_finish(struct dial *dial, int error, struct stream *stream, const struct addr *addr) {
        dial_fn *done = dial->done;
        void *owner = dial->owner;
        dial_cancel(dial);
        done(owner, error, stream, addr);
}

static void begin_next(struct dial *dial);

static void dial_lost(struct dial *dial, int error) {
        dial_note(dial, error);
        if (dial->next < dial->n)
                begin_next(dial);
        else if (dial->running == 0)
                dial_finish(dial, dial->error ? dial->error : -EIO, NULL, NULL);
}

static void on_ready(struct stream *stream, void *owner) {
        struct attempt *attempt = owner;
        struct dial *dial = attempt->dial;

        if (!stream->writable)
                return;

        int error = 0;
        socklen_t size = sizeof error;

        /* A failure makes it readable too; a connection that is only writable has succeeded, where that is told. */
        bool in_doubt = stream->readable || !loop_tells_ends;
        if (in_doubt && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                error = errno;

        if (error) {
                stream_close(stream);
                attempt->stream = NULL;
                dial->running--;
                dial_lost(dial, -error);

                return;
        }

        attempt->stream = NULL;
        stream_set_owner(stream, NULL, NULL);
        dial_finish(dial, 0, stream, &attempt->addr);
}

static int dial_begin(struct dial *dial, size_t i) {
        struct sockaddr_storage where;
        socklen_t size = addr_to_sockaddr(&dial->attempts[i].addr, dial->port, &where);
        int fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;

        if (connect(fd, (struct sockaddr *)&where, size) < 0 && errno != EINPROGRESS) {
                int error = -errno;

                close(fd);
                return error;
        }

        struct attempt *attempt = &dial->attempts[i];
        int r = stream_socket_connecting(dial->loop, fd, &attempt->stream);
        if (r < 0)
                return r;

        attempt->dial = dial;
        stream_set_owner(attempt->stream, on_ready, attempt);

        return 0;
}

/* Begins attempts until one is under way; the next follows after the stagger. */
static void begin_next(struct dial *dial) {
        while (dial->next < dial->n) {
                int r = dial_begin(dial, dial->next++);
                if (r == 0) {
                        dial->running++;
                        if (dial->next < dial->n)
                                timer_start(&dial->stagger, DIAL_STAGGER_NS);
                        return;
                }

                dial_note(dial, r);
        }

        if (dial->running == 0)
                dial_finish(dial, dial->error, NULL, NULL);
}

static void on_stagger(struct timer *timer) {
        begin_next(link_owner(timer, struct dial, stagger));
}

static void on_limit(struct timer *timer) {
        struct dial *dial = link_owner(timer, struct dial, limit);
        dial_note(dial, -ETIMEDOUT);
        dial_finish(dial, dial->error, NULL, NULL);
}

static void on_begin(struct task *task) {
        begin_next(link_owner(task, struct dial, begin));
}

int dial_start(struct loop *loop, const struct addr *addrs, size_t n, uint16_t port, uint64_t timeout_ns, dial_fn *done,
               void *owner, struct dial **ret) {
        if (n == 0 || n > DIAL_ADDRS_MAX)
                return -EINVAL;

        for (size_t i = 0; i < n; i++)
                if (addrs[i].family != ADDR_V4 && addrs[i].family != ADDR_V6)
                        return -EINVAL;

        struct dial *dial = alloc_zeroed(sizeof *dial + n * sizeof dial->attempts[0]);
        if (!dial)
                return -ENOMEM;

        dial->loop = loop;
        dial->done = done;
        dial->owner = owner;
        dial->port = port;
        dial_interleave(dial, addrs, n);
        timer_init(&dial->stagger, loop, on_stagger);
        timer_init(&dial->limit, loop, on_limit);
        task_init(&dial->begin, on_begin);
        task_init(&dial->destroy, dial_destroy);
        timer_start(&dial->limit, timeout_ns);
        loop_defer(loop, &dial->begin); /* in this turn, but after the caller has noted the dial */
        *ret = dial;

        return 0;
}
