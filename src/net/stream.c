/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "net/loop_os.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The socket stream. Its watch is edge-triggered and registered once for its whole life. A read that returns less than
 * it asked for has drained the socket, so the read that would only say -EAGAIN is saved, unless the peer's end was
 * announced: then the next read must find it, as no further edge will come.
 *
 * A reset that comes together with the peer's last bytes is one edge, which libevent reports as bytes and room and does
 * not call an end. So a socket that is quiet after a saved read is read once more a little later. Nobody would hear of
 * the reset otherwise.
 */
enum { GATHER_MAX = 2048 };
#define QUIET_NS (100 * NS_PER_MS)

struct stream_pushback {
        size_t at, n;
        char bytes[];
};

struct socket_stream {
        struct stream s;
        struct watch watch;
        struct timer quiet; /* runs since a read was saved */
        struct task destroy;
};

static struct socket_stream *socket_of(struct stream *stream) {
        return link_owner(stream, struct socket_stream, s);
}

static void on_watch(struct watch *w, unsigned ready) {
        struct stream *stream = &link_owner(w, struct socket_stream, watch)->s;

        if (ready & WATCH_READ)
                stream->readable = true;
        if (ready & WATCH_WRITE)
                stream->writable = true;
        if (ready & WATCH_CLOSED)
                stream->closed = true;
        if (stream->on_ready)
                stream->on_ready(stream, stream->owner);
}

static void on_quiet(struct timer *timer) {
        struct socket_stream *socket_stream = link_owner(timer, struct socket_stream, quiet);

        if (!socket_stream->s.readable)
                on_watch(&socket_stream->watch, WATCH_READ);
}

static void save_read(struct stream *stream) {
        struct timer *quiet = &socket_of(stream)->quiet;

        stream->readable = false;
        if (link_is_empty(&quiet->link))
                timer_start(quiet, QUIET_NS);
}

static ssize_t socket_read(struct stream *stream, void *p, size_t n) {
        if (!stream->readable)
                return -EAGAIN;

        ssize_t got;

        do
                got = socket_receive(stream->fd, p, n);
        while (got < 0 && errno == EINTR);

        if (got < 0) {
                if (errno == EAGAIN)
                        stream->readable = false;
                return -errno;
        }

        if (got > 0 && (size_t)got < n && !stream->closed)
                save_read(stream);

        return got;
}

/* The parts as one, copied where they are small: sendmsg() costs more than a small copy and send(). */
static bool stream_gather(const struct iovec *parts, int n_parts, char *room, struct iovec *ret) {
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

static ssize_t socket_write(struct stream *stream, const struct iovec *parts, int n_parts) {
        if (!stream->writable)
                return -EAGAIN;

        char room[GATHER_MAX];
        struct iovec one;
        bool is_one = stream_gather(parts, n_parts, room, &one);
        struct msghdr msghdr = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n_parts };
        ssize_t put;

        do
                put = is_one ? socket_send(stream->fd, one.iov_base, one.iov_len)
                             : sendmsg(stream->fd, &msghdr, MSG_NOSIGNAL);
        while (put < 0 && errno == EINTR);

        if (put < 0) {
                if (errno == EAGAIN)
                        stream->writable = false;
                return -errno;
        }

        return put;
}

static int socket_finish(struct stream *stream) {
        if (shutdown(stream->fd, SHUT_WR) < 0 && errno != ENOTCONN)
                return -errno;

        return 0;
}

static void stream_destroy(struct task *task) {
        free(link_owner(task, struct socket_stream, destroy));
}

static void socket_close(struct stream *stream, bool abort) {
        struct socket_stream *socket_stream = socket_of(stream);

        watch_stop(&socket_stream->watch);
        timer_stop(&socket_stream->quiet);

        if (abort) {
                struct linger now = { .l_onoff = 1, .l_linger = 0 };
                setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }

        close(stream->fd);
        stream->fd = -1;
        stream->on_ready = NULL;
        loop_defer(stream->loop, &socket_stream->destroy);
}

static const struct stream_ops socket_ops = {
        .name = "socket", .read = socket_read, .write = socket_write, .finish = socket_finish, .close = socket_close
};

static int new_socket(struct loop *loop, int fd, bool connected, struct stream **ret) {
        struct socket_stream *stream = alloc_zeroed(sizeof *stream);
        if (!stream) {
                close(fd);
                return -ENOMEM;
        }

        stream->s = (struct stream){ .ops = &socket_ops, .loop = loop, .fd = fd, .plain = true };
        stream->s.readable = stream->s.writable = connected;
        timer_init(&stream->quiet, loop, on_quiet);
        task_init(&stream->destroy, stream_destroy);

        int one = 1;
        if (!connected)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

        int r = watch_start_edge(loop, &stream->watch, fd, on_watch);
        if (r < 0) {
                close(fd);
                free(stream);
                return r;
        }

        *ret = &stream->s;
        return 0;
}

int stream_socket_new(struct loop *loop, int fd, struct stream **ret) {
        return new_socket(loop, fd, true, ret);
}

int stream_socket_connecting(struct loop *loop, int fd, struct stream **ret) {
        return new_socket(loop, fd, false, ret);
}

static size_t take_pushback(struct stream *stream, void *p, size_t n) {
        struct stream_pushback *pushback = stream->pushback;
        size_t left = pushback->n - pushback->at;
        size_t take = min_of(left, n);

        memcpy(p, pushback->bytes + pushback->at, take);
        pushback->at += take;
        if (pushback->at == pushback->n) {
                free(pushback);
                stream->pushback = NULL;
        }

        return take;
}

ssize_t stream_read(struct stream *stream, void *p, size_t n) {
        if (stream->pushback)
                return (ssize_t)take_pushback(stream, p, n);
        return stream->ops->read(stream, p, n);
}

ssize_t stream_writev(struct stream *stream, const struct iovec *parts, int n_parts) {
        return stream->ops->write(stream, parts, n_parts);
}

int stream_unread(struct stream *stream, struct str bytes) {
        if (bytes.n == 0)
                return 0;

        size_t behind = stream->pushback ? stream->pushback->n - stream->pushback->at : 0;
        struct stream_pushback *pushback = malloc(sizeof *pushback + bytes.n + behind);
        if (!pushback)
                return -ENOMEM;

        pushback->at = 0;
        pushback->n = bytes.n + behind;
        memcpy(pushback->bytes, bytes.p, bytes.n);

        if (behind)
                memcpy(pushback->bytes + bytes.n, stream->pushback->bytes + stream->pushback->at, behind);

        free(stream->pushback);
        stream->pushback = pushback;

        return 0;
}

bool stream_peer_left(const struct stream *stream) {
        if (stream->closed)
                return true;
        /* A reset is not told apart from new bytes by an edge. */
        struct pollfd now = { .fd = stream->fd, .events = POLLRDHUP };
        return poll(&now, 1, 0) > 0 && (now.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void stream_assume_readable(struct stream *stream) {
        for (; stream; stream = stream->below)
                stream->readable = true;
}

static void close_stream(struct stream *stream, bool abort) {
        if (!stream)
                return;
        free(stream->pushback);
        stream->pushback = NULL;
        stream->ops->close(stream, abort);
}

void stream_close(struct stream *stream) {
        close_stream(stream, false);
}

void stream_abort(struct stream *stream) {
        close_stream(stream, true);
}
