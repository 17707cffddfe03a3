/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include "base/alloc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The socket stream. Its watch is edge-triggered and registered once for its whole life. A read that returns less than
 * it asked for has drained the socket, so the read that would only say -EAGAIN is saved, unless the peer's end was
 * announced: then the next read must find it, as no further edge will come.
 *
 * recv() and send() of the C library are places where a thread may be cancelled, and pay for that with two locked
 * instructions each. No thread here is ever cancelled, so the system is called directly.
 */
enum { GATHER_MAX = 2048 };

struct stream_pushback {
        size_t at, n;
        char bytes[];
};

struct socket_stream {
        struct stream s;
        struct watch watch;
        struct task destroy;
};

static struct socket_stream *socket_of(struct stream *s) {
        return link_owner(s, struct socket_stream, s);
}

static void on_watch(struct watch *w, unsigned ready) {
        struct stream *s = &link_owner(w, struct socket_stream, watch)->s;
        if (ready & WATCH_READ)
                s->readable = true;
        if (ready & WATCH_WRITE)
                s->writable = true;
        if (ready & WATCH_CLOSED)
                s->closed = true;
        if (s->on_ready)
                s->on_ready(s, s->owner);
}

static ssize_t socket_read(struct stream *s, void *p, size_t n) {
        if (!s->readable)
                return -EAGAIN;
        ssize_t got;
        do
                got = syscall(SYS_recvfrom, s->fd, p, n, 0, NULL, NULL);
        while (got < 0 && errno == EINTR);
        if (got < 0) {
                if (errno == EAGAIN)
                        s->readable = false;
                return -errno;
        }
        if (got > 0 && (size_t)got < n && !s->closed)
                s->readable = false;
        return got;
}

/* The parts as one, copied where they are small: sendmsg() costs more than a small copy and send(). */
static bool gather(const struct iovec *parts, int n_parts, char *room, struct iovec *ret) {
        size_t n = 0;
        *ret = parts[0];
        if (n_parts == 1)
                return true;
        for (int i = 0; i < n_parts; i++) {
                if (parts[i].iov_len > GATHER_MAX - n)
                        return false;
                if (parts[i].iov_len > 0)
                        memcpy(room + n, parts[i].iov_base, parts[i].iov_len);
                n += parts[i].iov_len;
        }
        *ret = (struct iovec){ room, n };
        return true;
}

static ssize_t socket_write(struct stream *s, const struct iovec *parts, int n_parts) {
        if (!s->writable)
                return -EAGAIN;
        char room[GATHER_MAX];
        struct iovec one;
        bool is_one = gather(parts, n_parts, room, &one);
        struct msghdr m = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n_parts };
        ssize_t put;
        do
                put = is_one ? syscall(SYS_sendto, s->fd, one.iov_base, one.iov_len, MSG_NOSIGNAL, NULL, 0)
                             : sendmsg(s->fd, &m, MSG_NOSIGNAL);
        while (put < 0 && errno == EINTR);
        if (put < 0) {
                if (errno == EAGAIN)
                        s->writable = false;
                return -errno;
        }
        return put;
}

static int socket_finish(struct stream *s) {
        return shutdown(s->fd, SHUT_WR) < 0 && errno != ENOTCONN ? -errno : 0;
}

static void destroy(struct task *t) {
        free(link_owner(t, struct socket_stream, destroy));
}

static void socket_close(struct stream *s, bool abort) {
        struct socket_stream *k = socket_of(s);
        watch_stop(&k->watch);
        if (abort) {
                struct linger now = { .l_onoff = 1, .l_linger = 0 };
                setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        close(s->fd);
        s->fd = -1;
        s->on_ready = NULL;
        loop_defer(s->loop, &k->destroy);
}

static const struct stream_ops socket_ops = {
        .name = "socket", .read = socket_read, .write = socket_write, .finish = socket_finish, .close = socket_close
};

static int new_socket(struct loop *l, int fd, bool connected, struct stream **ret) {
        struct socket_stream *k = alloc_zeroed(sizeof *k);
        if (!k) {
                close(fd);
                return -ENOMEM;
        }
        k->s = (struct stream){ .ops = &socket_ops, .loop = l, .fd = fd, .plain = true };
        k->s.readable = k->s.writable = connected;
        task_init(&k->destroy, destroy);
        int one = 1;
        if (!connected)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        int r = watch_start_edge(l, &k->watch, fd, on_watch);
        if (r < 0) {
                close(fd);
                free(k);
                return r;
        }
        *ret = &k->s;
        return 0;
}

int stream_socket_new(struct loop *l, int fd, struct stream **ret) {
        return new_socket(l, fd, true, ret);
}

int stream_socket_connecting(struct loop *l, int fd, struct stream **ret) {
        return new_socket(l, fd, false, ret);
}

static size_t take_pushback(struct stream *s, void *p, size_t n) {
        struct stream_pushback *b = s->pushback;
        size_t left = b->n - b->at;
        size_t take = left < n ? left : n;
        memcpy(p, b->bytes + b->at, take);
        b->at += take;
        if (b->at == b->n) {
                free(b);
                s->pushback = NULL;
        }
        return take;
}

ssize_t stream_read(struct stream *s, void *p, size_t n) {
        if (s->pushback)
                return (ssize_t)take_pushback(s, p, n);
        return s->ops->read(s, p, n);
}

ssize_t stream_writev(struct stream *s, const struct iovec *parts, int n_parts) {
        return s->ops->write(s, parts, n_parts);
}

int stream_unread(struct stream *s, struct str bytes) {
        if (bytes.n == 0)
                return 0;
        size_t behind = s->pushback ? s->pushback->n - s->pushback->at : 0;
        struct stream_pushback *b = malloc(sizeof *b + bytes.n + behind);
        if (!b)
                return -ENOMEM;
        b->at = 0;
        b->n = bytes.n + behind;
        memcpy(b->bytes, bytes.p, bytes.n);
        if (behind)
                memcpy(b->bytes + bytes.n, s->pushback->bytes + s->pushback->at, behind);
        free(s->pushback);
        s->pushback = b;
        return 0;
}

bool stream_peer_left(const struct stream *s) {
        if (s->closed)
                return true;
        /* A reset is not told apart from new bytes by an edge. */
        struct pollfd now = { .fd = s->fd, .events = POLLRDHUP };
        return poll(&now, 1, 0) > 0 && (now.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void stream_assume_readable(struct stream *s) {
        for (; s; s = s->below)
                s->readable = true;
}

static void close_stream(struct stream *s, bool abort) {
        if (!s)
                return;
        free(s->pushback);
        s->pushback = NULL;
        s->ops->close(s, abort);
}

void stream_close(struct stream *s) {
        close_stream(s, false);
}

void stream_abort(struct stream *s) {
        close_stream(s, true);
}
