/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd_stream.h"

#include "base/clock.h"
#include "base/fd_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

/* One message at a time: workers share a socket, and what another thread sends must not land inside a message. */
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

/* 0 when it is ready in time. */
static int stream_await(int sock, short event, uint64_t end_ns) {
        struct pollfd wanted = { .fd = sock, .events = event };
        int got;

        do
                got = poll(&wanted, 1, clock_left_ms(end_ns));
        while (got < 0 && errno == EINTR);

        if (got < 0)
                return -errno;
        if (got <= 0)
                return -ETIMEDOUT;

        return 0;
}

static bool is_full(int code) {
        return code == EAGAIN || code == ENOBUFS;
}

/* The rest of a message that has begun. */
static int send_rest(int sock, const char *at, size_t n) {
        const uint64_t end_ns = clock_after_ms(FD_STREAM_WAIT_MS);

        while (n > 0) {
                ssize_t put = send(sock, at, n, MSG_NOSIGNAL);
                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0 && !is_full(errno))
                        return -errno;
                if (put < 0) {
                        int r = stream_await(sock, POLLOUT, end_ns);
                        if (r < 0)
                                return r;
                        continue;
                }

                at += put;
                n -= (size_t)put;
        }

        return 0;
}

static int send_message(int sock, struct str payload, const int *fds, size_t n_fds) {
        uint32_t length = (uint32_t)payload.n;
        union fd_rights room = { 0 };
        struct iovec parts[] = { { &length, sizeof length }, { (void *)payload.p, payload.n } };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
        ssize_t put;

        fd_rights_attach(&message, &room, fds, n_fds);
        do
                put = sendmsg(sock, &message, MSG_NOSIGNAL);
        while (put < 0 && errno == EINTR);
        if (put < 0) {
                if (is_full(errno))
                        return -EAGAIN;
                return -errno;
        }

        size_t sent = (size_t)put;
        int r = 0;
        if (sent < sizeof length) {
                r = send_rest(sock, (const char *)&length + sent, sizeof length - sent);
                sent = sizeof length;
        }
        if (r == 0)
                r = send_rest(sock, payload.p + (sent - sizeof length), payload.n - (sent - sizeof length));
        if (r < 0)
                (void)shutdown(sock, SHUT_RDWR);

        if (r < 0)
                return -EPIPE;

        return 0;
}

int fd_stream_send(int sock, struct str payload, const int *fds, size_t n_fds) {
        if (payload.n == 0 || payload.n > UINT32_MAX || n_fds > FD_RIGHTS_MAX)
                return -EINVAL;

        pthread_mutex_lock(&sending);
        int r = send_message(sock, payload, fds, n_fds);
        pthread_mutex_unlock(&sending);

        return r;
}

/* The rest of a message of which a part is here. */
static int receive_rest(int sock, char *to, size_t n, uint64_t end_ns) {
        while (n > 0) {
                ssize_t got = recv(sock, to, n, 0);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got == 0)
                        return -EPIPE;
                if (got < 0 && errno != EAGAIN && !fd_rights_lacks_room(errno))
                        return -errno;
                if (got < 0) {
                        int r = stream_await(sock, POLLIN, end_ns);
                        if (r < 0)
                                return r;
                        continue;
                }

                to += got;
                n -= (size_t)got;
        }

        return 0;
}

/* Whoever closed a socket with messages unread may leave an error at the other end, once, before its last words. */
static ssize_t receive_length(int sock, uint32_t *ret_length, struct msghdr *ret, union fd_rights *room) {
        struct iovec part = { ret_length, sizeof *ret_length };
        bool reset = false;

        for (;;) {
                *ret = (struct msghdr){ .msg_iov = &part,
                                        .msg_iovlen = 1,
                                        .msg_control = room->bytes,
                                        .msg_controllen = sizeof room->bytes };
                ssize_t got = recvmsg(sock, ret, 0);
                if (got >= 0)
                        return got;
                if (fd_rights_lacks_room(errno))
                        return -EAGAIN; /* nothing of the message was taken */
                if (errno != EINTR && (errno != ECONNRESET || reset))
                        return -errno;

                reset = reset || errno == ECONNRESET;
        }
}

/* The first bytes of a length, with the descriptors. How many, 0 at the end. */
static ssize_t receive_begin(int sock, uint32_t *ret_length, int *ret_fds, size_t max_fds, size_t *ret_n_fds) {
        union fd_rights room = { 0 };
        struct msghdr message;
        ssize_t got = receive_length(sock, ret_length, &message, &room);
        if (got < 0)
                return got;

        int r = fd_rights_collect(&message, ret_fds, max_fds, ret_n_fds);
        if (r < 0)
                return r;

        for (size_t i = 0; i < *ret_n_fds; i++)
                (void)fcntl(ret_fds[i], F_SETFD, FD_CLOEXEC);
        return got;
}

static int receive_body(int sock, uint32_t *length, size_t have, char *payload, size_t payload_max) {
        const uint64_t end_ns = clock_after_ms(FD_STREAM_WAIT_MS);
        int r = receive_rest(sock, (char *)length + have, sizeof *length - have, end_ns);

        if (r < 0)
                return r;
        if (*length == 0 || *length > payload_max)
                return -EMSGSIZE;
        return receive_rest(sock, payload, *length, end_ns);
}

ssize_t fd_stream_receive(int sock, void *payload, size_t payload_max, int *ret_fds, size_t max_fds,
                          size_t *ret_n_fds) {
        uint32_t length = 0;
        size_t n_fds = 0;
        ssize_t begun = receive_begin(sock, &length, ret_fds, max_fds, &n_fds);
        if (begun == 0 || begun == -EAGAIN)
                return begun;

        int r = begun < 0 ? (int)begun : receive_body(sock, &length, (size_t)begun, payload, payload_max);
        if (r < 0) {
                fd_rights_close(ret_fds, n_fds);
                (void)shutdown(sock, SHUT_RDWR); /* where the next message begins, nobody knows */
                return r;
        }

        *ret_n_fds = n_fds;
        return length;
}
