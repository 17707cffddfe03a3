/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The practical limit: a relay of one thread with no policy, no parser worth the name, no record and no time limits,
 * written to make as few system calls as the job allows. CONNECT, SOCKS5 and absolute-form GET are told apart by the
 * first byte; each handshake must arrive in one piece, as the load generator sends it. What Bailey costs above this is
 * what its work costs.
 */
#include "tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 128 * 1024, FIRST_MAX = 1024, PIPE_BYTES = 256 * 1024, TURN_BYTES = 1 << 20 };

struct pair;

struct side {
        struct pair *pair;
        int fd;
        bool readable, writable, ended;
        char *rest; /* read and not yet written to the other side */
        size_t rest_at, rest_n;
        int pipe[2];
        size_t in_pipe;
};

enum state { GREETING, SOCKS_REQUEST, CONNECTING, RELAYING };
enum kind { CONNECT, SOCKS, HTTP };

struct pair {
        struct side client, server;
        enum state state;
        enum kind kind;
        bool dead;
        size_t first_n;
        char *first; /* an HTTP request on its way to a server that is not connected yet */
        struct pair *next_dead;
};

static int epoll;
static bool use_splice;
static char buffer[BUFFER];
static struct pair *graveyard;

static void bury(struct pair *p) {
        if (p->dead)
                return;
        p->dead = true;
        for (int i = 0; i < 2; i++) {
                struct side *s = i ? &p->server : &p->client;
                if (s->fd >= 0)
                        close(s->fd);
                if (s->pipe[1] > 0) {
                        close(s->pipe[0]);
                        close(s->pipe[1]);
                }
                free(s->rest);
        }
        free(p->first);
        p->next_dead = graveyard;
        graveyard = p;
}

static void dial(struct pair *p, const struct sockaddr_in *to) {
        p->server.fd = tool_socket();
        p->state = CONNECTING;
        if ((ntohl(to->sin_addr.s_addr) >> 24) != 127 ||
            (connect(p->server.fd, (const struct sockaddr *)to, sizeof *to) < 0 && errno != EINPROGRESS)) {
                bury(p);
                return;
        }
        tool_watch(epoll, p->server.fd, &p->server);
}

/* "127.0.0.1:8080" as n bytes. */
static void dial_text(struct pair *p, const char *text, size_t n) {
        char copy[64];
        if (n >= sizeof copy) {
                bury(p);
                return;
        }
        memcpy(copy, text, n);
        copy[n] = 0;
        struct sockaddr_in to = tool_address(copy);
        dial(p, &to);
}

/* "GET http://host/path" becomes "GET /path", in place. Returns the new start. */
static char *to_origin_form(char *head, size_t *n, const char **ret_host, size_t *ret_host_n) {
        char *target = memmem(head, *n, " http://", 8);
        char *path = target ? memchr(target + 8, '/', *n - (size_t)(target + 8 - head)) : NULL;
        if (!path)
                return NULL;
        size_t method_n = (size_t)(target - head) + 1;
        *ret_host = target + 8;
        *ret_host_n = (size_t)(path - target) - 8;
        return path - method_n;
}

static void greet_http(struct pair *p, size_t n) {
        const char *host;
        size_t host_n, method_n;
        char *start = to_origin_form(buffer, &n, &host, &host_n);
        if (!start || n > FIRST_MAX || !(p->first = malloc(n))) {
                bury(p);
                return;
        }
        p->kind = HTTP;
        method_n = (size_t)(host - buffer) - 7;
        memcpy(p->first, buffer, method_n);
        p->first_n = n - (size_t)(start - buffer);
        memcpy(p->first + method_n, start + method_n, p->first_n - method_n);
        dial_text(p, host, host_n);
}

static void greet(struct pair *p) {
        ssize_t got = recv(p->client.fd, buffer, sizeof buffer, 0);
        if (got < 0 && errno == EAGAIN)
                return;
        if (got < 3) {
                bury(p);
                return;
        }
        if (p->state == SOCKS_REQUEST) {
                struct sockaddr_in to = { .sin_family = AF_INET };
                if (got != 10 || buffer[3] != 1) {
                        bury(p);
                        return;
                }
                memcpy(&to.sin_addr, buffer + 4, 4);
                memcpy(&to.sin_port, buffer + 8, 2);
                dial(p, &to);
        } else if (buffer[0] == 5) {
                p->kind = SOCKS;
                p->state = SOCKS_REQUEST;
                if (send(p->client.fd, "\5\0", 2, MSG_NOSIGNAL) != 2)
                        bury(p);
        } else if (memcmp(buffer, "CON", 3) == 0) {
                char *end = memchr(buffer + 8, ' ', (size_t)got - 8);
                if (end)
                        dial_text(p, buffer + 8, (size_t)(end - buffer) - 8);
                else
                        bury(p);
        } else
                greet_http(p, (size_t)got);
}

static void connected(struct pair *p) {
        static const char established[] = "HTTP/1.1 200 OK\r\n\r\n", bound[] = "\5\0\0\1\0\0\0\0\0\0";
        int error = 0;
        socklen_t n = sizeof error;
        getsockopt(p->server.fd, SOL_SOCKET, SO_ERROR, &error, &n);
        ssize_t put = -1;
        if (!error && p->kind == CONNECT)
                put = send(p->client.fd, established, sizeof established - 1, MSG_NOSIGNAL);
        else if (!error && p->kind == SOCKS)
                put = send(p->client.fd, bound, sizeof bound - 1, MSG_NOSIGNAL);
        else if (!error)
                put = send(p->server.fd, p->first, p->first_n, MSG_NOSIGNAL);
        if (put <= 0)
                bury(p);
        free(p->first);
        p->first = NULL;
        p->state = RELAYING;
}

/* Each returns how many bytes moved, 0 when nothing can be done now. */
static size_t spliced(struct side *from, struct side *to) {
        if (from->pipe[1] == 0) {
                if (pipe2(from->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
                        tool_die("pipe: %s", strerror(errno));
                fcntl(from->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
        }
        if (from->in_pipe == 0) {
                ssize_t got =
                    splice(from->fd, NULL, from->pipe[1], NULL, PIPE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
                from->readable = got > 0;
                from->ended = got == 0 || (got < 0 && errno != EAGAIN);
                from->in_pipe = got > 0 ? (size_t)got : 0;
        }
        if (from->in_pipe == 0)
                return 0;
        ssize_t put = splice(from->pipe[0], NULL, to->fd, NULL, from->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (put < 0) {
                to->writable = false;
                from->ended |= errno != EAGAIN;
                return 0;
        }
        from->in_pipe -= (size_t)put;
        return (size_t)put;
}

static size_t keep_rest(struct side *from, struct side *to, const char *bytes, size_t n, ssize_t put) {
        if (put < 0 && errno != EAGAIN) {
                from->ended = true;
                return 0;
        }
        size_t done = put > 0 ? (size_t)put : 0;
        if (done < n) {
                to->writable = false;
                if (!(from->rest = malloc(n - done)))
                        tool_die("out of memory");
                memcpy(from->rest, bytes + done, n - done);
                from->rest_at = 0;
                from->rest_n = n - done;
        }
        return done;
}

static size_t copied(struct side *from, struct side *to) {
        if (from->rest) {
                ssize_t put = send(to->fd, from->rest + from->rest_at, from->rest_n - from->rest_at, MSG_NOSIGNAL);
                if (put < 0) {
                        to->writable = false;
                        from->ended |= errno != EAGAIN;
                        return 0;
                }
                from->rest_at += (size_t)put;
                if (from->rest_at == from->rest_n) {
                        free(from->rest);
                        from->rest = NULL;
                }
                return (size_t)put;
        }
        ssize_t got = recv(from->fd, buffer, sizeof buffer, 0);
        if (got <= 0) {
                from->readable = false;
                from->ended = got == 0 || errno != EAGAIN;
                return 0;
        }
        from->readable = got == (ssize_t)sizeof buffer;
        char *bytes = buffer;
        size_t n = (size_t)got;
        if (from->pair->kind == HTTP && from == &from->pair->client) {
                const char *host;
                size_t host_n;
                char *start = to_origin_form(buffer, &n, &host, &host_n);
                if (!start) {
                        from->ended = true;
                        return 0;
                }
                size_t method_n = (size_t)(host - buffer) - 7;
                memmove(start, buffer, method_n);
                n -= (size_t)(start - buffer);
                bytes = start;
        }
        return keep_rest(from, to, bytes, n, send(to->fd, bytes, n, MSG_NOSIGNAL));
}

static void flow(struct side *from, struct side *to) {
        size_t moved = 0, step = 1;
        bool splices = use_splice && from->pair->kind != HTTP && from == &from->pair->server;
        while (step > 0 && moved < TURN_BYTES && to->writable && (from->readable || from->rest || from->in_pipe)) {
                step = splices ? spliced(from, to) : copied(from, to);
                moved += step;
        }
        if (moved >= TURN_BYTES) { /* others first */
                struct epoll_event again = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = from };
                epoll_ctl(epoll, EPOLL_CTL_MOD, from->fd, &again);
        }
        if (from->ended && !from->rest && !from->in_pipe)
                bury(from->pair);
}

static void on_event(struct side *s, uint32_t events) {
        struct pair *p = s->pair;
        if (p->dead)
                return;
        s->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        s->writable |= (events & EPOLLOUT) != 0;
        if (p->state < CONNECTING) {
                if (events & EPOLLIN)
                        greet(p);
                return;
        }
        if (p->state == CONNECTING) {
                if (s == &p->server)
                        connected(p);
                return;
        }
        flow(s, s == &p->client ? &p->server : &p->client);
        if (!p->dead && (events & EPOLLOUT))
                flow(s == &p->client ? &p->server : &p->client, s);
}

static void accept_all(int listener) {
        int fd;
        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                struct pair *p = calloc(1, sizeof *p);
                if (!p)
                        tool_die("out of memory");
                p->client = (struct side){ .pair = p, .fd = fd };
                p->server = (struct side){ .pair = p, .fd = -1 };
                tool_watch(epoll, fd, &p->client);
        }
}

int main(int argc, char **argv) {
        if (argc < 2)
                tool_die("usage: relay ADDRESS:PORT [splice]");
        struct sockaddr_in at = tool_address(argv[1]);
        use_splice = argc > 2 && strcmp(argv[2], "splice") == 0;
        signal(SIGPIPE, SIG_IGN); /* splice and sendfile know no MSG_NOSIGNAL */
        tool_raise_limits();
        epoll = tool_epoll();
        int listener = tool_listen(&at);
        tool_watch(epoll, listener, NULL);
        for (;;) {
                struct epoll_event events[256];
                int n = epoll_wait(epoll, events, 256, -1);
                for (int i = 0; i < n; i++)
                        if (events[i].data.ptr)
                                on_event(events[i].data.ptr, events[i].events);
                        else
                                accept_all(listener);
                while (graveyard) {
                        struct pair *p = graveyard;
                        graveyard = p->next_dead;
                        free(p);
                }
        }
}
