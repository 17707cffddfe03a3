/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server behind every proxy of the lab: GET /N answers N bytes, on kept-alive connections. Small bodies go out with
 * their head in one call, large ones by sendfile from memory, so that the origin is never what is measured.
 */
#include "tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 4096, SMALL_MAX = 16384, FILE_BYTES = 16 << 20, TURN_BYTES = 1 << 20 };

struct connection {
        int fd;
        size_t head_n;
        uint64_t left; /* of a large body */
        char head[HEAD_MAX];
};

static int epoll, file;
static char answer[HEAD_MAX + SMALL_MAX];

static void drop(struct connection *c) {
        close(c->fd);
        c->fd = -1;
        free(c);
}

/* False when the connection is gone. */
static bool push_body(struct connection *c) {
        uint64_t turn = TURN_BYTES;
        while (c->left > 0 && turn > 0) {
                off_t at = 0;
                uint64_t want = c->left < FILE_BYTES ? c->left : FILE_BYTES;
                ssize_t put = sendfile(c->fd, file, &at, want < turn ? want : turn);
                if (put < 0 && errno == EAGAIN)
                        return true;
                if (put <= 0) {
                        drop(c);
                        return false;
                }
                c->left -= (uint64_t)put;
                turn -= (uint64_t)put;
        }
        if (c->left > 0) { /* others first: the edge comes again when it is asked for */
                struct epoll_event again = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c };
                epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &again);
        }
        return true;
}

static bool respond(struct connection *c) {
        uint64_t bytes = 0;
        if (strncmp(c->head, "GET /", 5) == 0)
                bytes = strtoull(c->head + 5, NULL, 10);
        int n = snprintf(answer, HEAD_MAX,
                         "HTTP/1.1 200 OK\r\nServer: lab\r\nContent-Type: application/octet-stream\r\n"
                         "Content-Length: %llu\r\n\r\n",
                         (unsigned long long)bytes);
        size_t total = (size_t)n;
        if (bytes <= SMALL_MAX) {
                memset(answer + n, 'x', bytes);
                total += bytes;
        } else
                c->left = bytes;
        if (send(c->fd, answer, total, MSG_NOSIGNAL) != (ssize_t)total) {
                drop(c);
                return false;
        }
        return push_body(c);
}

static void read_heads(struct connection *c) {
        for (;;) {
                ssize_t got = recv(c->fd, c->head + c->head_n, HEAD_MAX - 1 - c->head_n, 0);
                if (got < 0 && errno == EAGAIN)
                        return;
                if (got <= 0) {
                        drop(c);
                        return;
                }
                c->head_n += (size_t)got;
                c->head[c->head_n] = 0;
                bool full = c->head_n == HEAD_MAX - 1;
                if (!strstr(c->head, "\r\n\r\n") && !full)
                        continue;
                c->head_n = 0; /* the load generator sends one request at a time */
                if (full || !respond(c))
                        return;
                if ((size_t)got < HEAD_MAX / 2)
                        return; /* a short read: the next edge says when there is more */
        }
}

static void accept_all(int listener) {
        int fd;
        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                struct connection *c = calloc(1, sizeof *c);
                if (!c)
                        tool_die("out of memory");
                c->fd = fd;
                tool_watch(epoll, fd, c);
        }
}

int main(int argc, char **argv) {
        if (argc != 2)
                tool_die("usage: origin ADDRESS:PORT");
        struct sockaddr_in at = tool_address(argv[1]);
        signal(SIGPIPE, SIG_IGN); /* splice and sendfile know no MSG_NOSIGNAL */
        tool_raise_limits();
        epoll = tool_epoll();
        file = memfd_create("body", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, FILE_BYTES) < 0)
                tool_die("cannot make the body: %s", strerror(errno));
        int listener = tool_listen(&at);
        socklen_t size = sizeof at;
        if (getsockname(listener, (struct sockaddr *)&at, &size) < 0 || printf("%u\n", ntohs(at.sin_port)) < 0)
                tool_die("no port: %s", strerror(errno));
        fflush(stdout); /* port 0 takes a free one, and whoever started this wants to know */
        tool_watch(epoll, listener, NULL);
        for (;;) {
                struct epoll_event events[256];
                int n = epoll_wait(epoll, events, 256, -1);
                for (int i = 0; i < n; i++) {
                        struct connection *c = events[i].data.ptr;
                        if (!c)
                                accept_all(listener);
                        else if (c->left == 0)
                                read_heads(c);
                        else if (events[i].events & (EPOLLERR | EPOLLHUP))
                                drop(c);
                        else
                                push_body(c);
                }
        }
}
