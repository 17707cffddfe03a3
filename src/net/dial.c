/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include "base/alloc.h"

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
static void interleave(struct dial *d, const struct addr *addrs, size_t n) {
        size_t at[2] = { 0, 0 };
        uint8_t family[2] = { addrs[0].family, addrs[0].family == ADDR_V4 ? ADDR_V6 : ADDR_V4 };
        unsigned turn = 0;
        while (d->n < n) {
                size_t *i = &at[turn];
                while (*i < n && addrs[*i].family != family[turn])
                        ++*i;
                if (*i < n)
                        d->attempts[d->n++].addr = addrs[(*i)++];
                turn = !turn;
        }
}

static int rank(int error) {
        static const int telling[] = { -ETIMEDOUT,    -ENETUNREACH, -EHOSTUNREACH, -ECONNRESET,
                                       -ECONNREFUSED, -EMFILE,      -ENFILE };
        for (int i = 0; i < (int)(sizeof telling / sizeof telling[0]); i++)
                if (telling[i] == error)
                        return i + 2;
        return error ? 1 : 0;
}

static void note(struct dial *d, int error) {
        if (rank(error) > rank(d->error))
                d->error = error;
}

static void destroy(struct task *t) {
        free(link_owner(t, struct dial, destroy));
}

void dial_cancel(struct dial *d) {
        if (!d)
                return;
        timer_stop(&d->stagger);
        timer_stop(&d->limit);
        task_cancel(&d->begin);
        for (size_t i = 0; i < d->n; i++) {
                stream_close(d->attempts[i].stream);
                d->attempts[i].stream = NULL;
        }
        d->done = NULL;
        loop_defer(d->loop, &d->destroy);
}

static void finish(struct dial *d, int error, struct stream *s, const struct addr *addr) {
        dial_fn *done = d->done;
        void *owner = d->owner;
        dial_cancel(d);
        done(owner, error, s, addr);
}

static void begin_next(struct dial *d);

static void lost(struct dial *d, int error) {
        note(d, error);
        if (d->next < d->n)
                begin_next(d);
        else if (d->running == 0)
                finish(d, d->error ? d->error : -EIO, NULL, NULL);
}

static void on_ready(struct stream *s, void *owner) {
        struct attempt *a = owner;
        struct dial *d = a->dial;
        if (!s->writable)
                return;
        int error = 0;
        socklen_t size = sizeof error;
        /* A failure makes it readable too; a connection that is only writable has succeeded. */
        if (s->readable && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                error = errno;
        if (error) {
                stream_close(s);
                a->stream = NULL;
                d->running--;
                lost(d, -error);
                return;
        }
        a->stream = NULL;
        stream_set_owner(s, NULL, NULL);
        finish(d, 0, s, &a->addr);
}

static int begin(struct dial *d, size_t i) {
        struct sockaddr_storage where;
        socklen_t size = addr_to_sockaddr(&d->attempts[i].addr, d->port, &where);
        int fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, (struct sockaddr *)&where, size) < 0 && errno != EINPROGRESS) {
                int error = -errno;
                close(fd);
                return error;
        }
        struct attempt *a = &d->attempts[i];
        int r = stream_socket_connecting(d->loop, fd, &a->stream);
        if (r < 0)
                return r;
        a->dial = d;
        stream_set_owner(a->stream, on_ready, a);
        return 0;
}

/* Begins attempts until one is under way; the next follows after the stagger. */
static void begin_next(struct dial *d) {
        while (d->next < d->n) {
                int r = begin(d, d->next++);
                if (r == 0) {
                        d->running++;
                        if (d->next < d->n)
                                timer_start(&d->stagger, DIAL_STAGGER_NS);
                        return;
                }
                note(d, r);
        }
        if (d->running == 0)
                finish(d, d->error, NULL, NULL);
}

static void on_stagger(struct timer *t) {
        begin_next(link_owner(t, struct dial, stagger));
}

static void on_limit(struct timer *t) {
        struct dial *d = link_owner(t, struct dial, limit);
        note(d, -ETIMEDOUT);
        finish(d, d->error, NULL, NULL);
}

static void on_begin(struct task *t) {
        begin_next(link_owner(t, struct dial, begin));
}

int dial_start(struct loop *l, const struct addr *addrs, size_t n, uint16_t port, uint64_t timeout_ns, dial_fn *done,
               void *owner, struct dial **ret) {
        if (n == 0 || n > DIAL_ADDRS_MAX)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                if (addrs[i].family != ADDR_V4 && addrs[i].family != ADDR_V6)
                        return -EINVAL;
        struct dial *d = alloc_zeroed(sizeof *d + n * sizeof d->attempts[0]);
        if (!d)
                return -ENOMEM;
        d->loop = l;
        d->done = done;
        d->owner = owner;
        d->port = port;
        interleave(d, addrs, n);
        timer_init(&d->stagger, l, on_stagger);
        timer_init(&d->limit, l, on_limit);
        task_init(&d->begin, on_begin);
        task_init(&d->destroy, destroy);
        timer_start(&d->limit, timeout_ns);
        loop_defer(l, &d->begin); /* in this turn, but after the caller has noted the dial */
        *ret = d;
        return 0;
}
