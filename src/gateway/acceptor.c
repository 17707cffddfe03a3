/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/acceptor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/dns/dns_server.h"
#include "gateway/forward.h"
#include "gateway/gate.h"
#include "gateway/http/http_session.h"
#include "gateway/intercept.h"
#include "gateway/load/balance.h"
#include "gateway/load/quota.h"
#include "gateway/refused_packets.h"
#include "gateway/socks5.h"
#include "gateway/ssh/agent_session.h"
#include "gateway/ssh/ssh_session.h"
#include "gateway/transparent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHARE = 64 /* connections accepted in one turn */, TURNED_AWAY_READS = 16 };
#define PAUSE_NS (100 * NS_PER_MS)

/*
 * Out of descriptors: one in reserve is given up to accept a connection and close it, so that the client is refused at
 * once instead of waiting in the queue; then accepting pauses for a moment, while what is open goes on.
 */
struct acceptor {
        struct acceptor *next;
        struct worker *worker;
        const struct gateway_listener *listener;
        int fd, reserve;
        struct watch watch;
        struct timer resume;
        struct dns_udp *dns;
        struct packets *packets;
};

typedef int start_fn(const struct client *c);

/* The HTTP proxy; what it lets through with CONNECT is a tunnel. */
static int proxy_start(const struct client *client) {
        return http_session_start(client, intercept_join);
}

/* Said to whom no place is left. */
#define HTTP_BUSY(reason)                                                                                              \
        STR("HTTP/1.1 503 Service Unavailable\r\nx-bailey-reason: " reason "\r\nContent-Length: 0\r\n"                 \
            "Retry-After: 1\r\nConnection: close\r\n\r\n")

static const struct kind {
        start_fn *start;
        uint8_t via;
        struct str over_limit, no_audit;
} kinds[] = {
        [LISTENER_HTTP] = { proxy_start, VIA_HTTP, HTTP_BUSY("limit"), HTTP_BUSY("audit") },
        [LISTENER_SOCKS5] = { socks5_start, VIA_SOCKS5, STR("\5\xff"), STR("\5\xff") },
        [LISTENER_DNS_UDP] = { .via = VIA_DNS },
        [LISTENER_DNS_TCP] = { .start = dns_tcp_start, .via = VIA_DNS },
        [LISTENER_TRANSPARENT] = { .start = transparent_start, .via = VIA_TRANSPARENT },
        [LISTENER_FORWARD] = { .start = forward_start, .via = VIA_NONE },
        [LISTENER_PACKETS] = { .via = VIA_PACKET },
        [LISTENER_SHIM] = { .start = ssh_session_start, .via = VIA_SSH },
        [LISTENER_AGENT] = { .start = agent_session_start, .via = VIA_AGENT },
        [LISTENER_HANDED] = { proxy_start, VIA_HTTP, HTTP_BUSY("limit"), HTTP_BUSY("audit") },
        [LISTENER_API] = { http_session_start_api, VIA_API, HTTP_BUSY("limit"), HTTP_BUSY("audit") },
};
static_assert(sizeof kinds / sizeof kinds[0] == LISTENER_KINDS, "one row per kind of listener");

/* On the worker that will keep it, which has counted it already. */
static void acceptor_serve(struct worker *worker, const struct gateway_listener *listener, int fd) {
        const struct kind *kind = &kinds[listener->kind];
        struct client client = {
                .worker = worker, .listener = listener, .since = loop_now(worker->loop), .via = kind->via
        };

        client.number = atomic_fetch_add_explicit(&worker->gateway->connections_ever, 1, memory_order_relaxed) + 1;
        if (stream_socket_new(worker->loop, fd, &client.stream) < 0) {
                worker_takes_place_back(worker);
                return;
        }

        kind->start(&client);
}

struct handover {
        struct task task;
        struct worker *worker;
        const struct gateway_listener *listener;
        int fd;
};

static void on_handover(struct task *t) {
        struct handover *handover = link_owner(t, struct handover, task);
        acceptor_serve(handover->worker, handover->listener, handover->fd);
        free(handover);
}

static void acceptor_place(struct acceptor *acceptor, int fd) {
        struct worker *worker = balance_choose(acceptor->worker);
        struct handover *handover = worker == acceptor->worker ? NULL : malloc(sizeof *handover);
        if (!handover)
                worker = acceptor->worker;

        atomic_fetch_add_explicit(&worker->clients, 1, memory_order_relaxed);

        if (!handover) {
                acceptor_serve(worker, acceptor->listener, fd);
                return;
        }

        *handover = (struct handover){ .worker = worker, .listener = acceptor->listener, .fd = fd };
        task_init(&handover->task, on_handover);
        loop_post(worker->loop, &handover->task);
}

/* A word and the end. Unread bytes would turn the close into a reset that eats the word, so what is there is read, as
 * far as an honest client's first bytes reach: one that goes on sending must not keep the others waiting. */
static void turn_away(struct acceptor *acceptor, int fd, enum reason why) {
        const struct kind *kind = &kinds[acceptor->listener->kind];
        struct str word = why == REASON_AUDIT ? kind->no_audit : kind->over_limit;
        if (word.n) {
                char sink[4096];

                for (int i = 0; i < TURNED_AWAY_READS && recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0; i++)
                        ;

                send(fd, word.p, word.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                shutdown(fd, SHUT_WR);
        }

        close(fd);
        report_event(&acceptor->worker->report, &(struct event){ .kind = EVENT_TUNNEL_OPEN,
                                                                 .rule = RULE_NONE,
                                                                 .generation = acceptor->worker->policy->generation,
                                                                 .via = kinds[acceptor->listener->kind].via,
                                                                 .reason = (uint16_t)why });
}

/* Nothing is said to it, and its address is on record. */
static void turn_stranger_away(struct acceptor *acceptor, int fd, const struct addr *client) {
        char text[ADDR_TEXT_MAX];

        close(fd);
        addr_text(client, text);
        report_event(&acceptor->worker->report, &(struct event){ .kind = EVENT_TUNNEL_OPEN,
                                                                 .rule = RULE_NONE,
                                                                 .generation = acceptor->worker->policy->generation,
                                                                 .via = kinds[acceptor->listener->kind].via,
                                                                 .reason = REASON_CLIENT,
                                                                 .domain = str_of(text),
                                                                 .addr = *client });
}

/* Sockets without an address are the supervisor's own. */
static bool is_stranger(const struct acceptor *acceptor, const struct sockaddr_storage *from, struct addr *ret) {
        uint16_t port;

        if (!acceptor->worker->gateway->start.n_clients)
                return false;
        if (!addr_from_sockaddr((const struct sockaddr *)from, ret, &port))
                return from->ss_family != AF_UNIX;
        return !gate_is_for(acceptor->worker->gateway, ret);
}

static void pause_accepting(struct acceptor *acceptor) {
        watch_stop(&acceptor->watch);
        timer_start(&acceptor->resume, PAUSE_NS);
}

/* One that somebody else accepted. Without a connection errno is set, as by accept(). */
static int acceptor_receive(struct acceptor *acceptor, struct sockaddr_storage *ret_from) {
        char byte;
        int fd = -1;
        size_t n = 0;
        ssize_t r = fd_receive(acceptor->fd, &byte, sizeof byte, &fd, 1, &n);

        if (r <= 0) {
                if (r == 0)
                        watch_stop(&acceptor->watch); /* nobody hands over any more */
                errno = r == 0 ? EAGAIN : (int)-r;
                return -1;
        }

        socklen_t from_n = sizeof *ret_from;
        if (n != 1 || getpeername(fd, (struct sockaddr *)ret_from, &from_n) < 0 || fd_set_nonblocking(fd, true) < 0) {
                close_fd(&fd); /* it is gone already */
                errno = ECONNABORTED;
                return -1;
        }

        return fd;
}

static int acceptor_accept(struct acceptor *acceptor, struct sockaddr_storage *ret_from) {
        socklen_t from_n = sizeof *ret_from;

        if (acceptor->listener->kind == LISTENER_HANDED)
                return acceptor_receive(acceptor, ret_from);
        return accept4(acceptor->fd, (struct sockaddr *)ret_from, &from_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void out_of_descriptors(struct acceptor *acceptor) {
        if (acceptor->reserve >= 0) {
                close(acceptor->reserve);
                acceptor->reserve = -1;
                struct sockaddr_storage from = { 0 };
                int fd = acceptor_accept(acceptor, &from);
                if (fd >= 0)
                        turn_away(acceptor, fd, REASON_LIMIT);
        }

        acceptor->reserve = fcntl(acceptor->worker->gateway->events_fd, F_DUPFD_CLOEXEC, 0);
        pause_accepting(acceptor);
}

static void on_connection(struct watch *watch, unsigned ready) {
        (void)ready;
        struct acceptor *acceptor = link_owner(watch, struct acceptor, watch);
        struct worker *worker = acceptor->worker;

        for (int i = 0; i < SHARE; i++) {
                struct sockaddr_storage from = { 0 };
                struct addr client = { 0 };
                int fd = acceptor_accept(acceptor, &from);
                if (fd < 0) {
                        if (errno == EMFILE || errno == ENFILE)
                                out_of_descriptors(acceptor);
                        else if (errno == ENOMEM || errno == ENOBUFS)
                                pause_accepting(acceptor);
                        else if (errno == EINTR || errno == ECONNABORTED)
                                continue;

                        return;
                }

                if (is_stranger(acceptor, &from, &client)) {
                        turn_stranger_away(acceptor, fd, &client);
                        continue;
                }

                enum reason closed = gate_is_closed(worker);
                if (closed == REASON_NONE && !quota_enter(worker->gateway->quota, loop_now(worker->loop)))
                        closed = REASON_LIMIT;

                if (closed == REASON_NONE)
                        acceptor_place(acceptor, fd);
                else
                        turn_away(acceptor, fd, closed);
        }
}

static void on_resume(struct timer *timer) {
        struct acceptor *acceptor = link_owner(timer, struct acceptor, resume);
        if (acceptor->reserve < 0)
                acceptor->reserve = fcntl(acceptor->worker->gateway->events_fd, F_DUPFD_CLOEXEC, 0);
        if (watch_start_level(acceptor->worker->loop, &acceptor->watch, acceptor->fd, WATCH_READ, on_connection) < 0)
                timer_start(&acceptor->resume, PAUSE_NS);
}

static int start_one(struct worker *worker, const struct gateway_listener *listener, int fd, struct err *err) {
        struct acceptor *acceptor = calloc(1, sizeof *acceptor);
        if (!acceptor)
                return err_set(err, ENOMEM, "no memory for a listener");

        acceptor->worker = worker;
        acceptor->listener = listener;
        acceptor->fd = fd;
        acceptor->reserve = -1;
        timer_init(&acceptor->resume, worker->loop, on_resume);
        acceptor->next = worker->acceptors;
        worker->acceptors = acceptor;

        int r = fd_set_nonblocking(fd, true);
        if (r < 0)
                return err_set(err, -r, "listener %d cannot be made non-blocking", fd);
        if (listener->kind == LISTENER_DNS_UDP)
                return dns_udp_new(worker, fd, &acceptor->dns, err);
        if (listener->kind == LISTENER_PACKETS)
                return packets_new(worker, fd, &acceptor->packets, err);

        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* accepted sockets inherit it */
        acceptor->reserve = fcntl(worker->gateway->events_fd, F_DUPFD_CLOEXEC, 0);
        r = watch_start_level(worker->loop, &acceptor->watch, fd, WATCH_READ, on_connection);

        if (r < 0)
                return err_set(err, -r, "listener %d cannot be watched", fd);

        return 0;
}

int acceptor_start(struct worker *worker, const int *fds, struct err *err) {
        const struct gateway_start *start = &worker->gateway->start;
        for (unsigned i = 0; i < start->n_listeners; i++) {
                int r = start_one(worker, &start->listeners[i], fds[i], err);
                if (r < 0)
                        return r;
        }

        return 0;
}

void acceptor_stop(struct worker *worker) {
        while (worker->acceptors) {
                struct acceptor *acceptor = worker->acceptors;

                worker->acceptors = acceptor->next;
                watch_stop(&acceptor->watch);
                timer_stop(&acceptor->resume);
                dns_udp_free(acceptor->dns);
                packets_free(acceptor->packets);

                if (acceptor->reserve >= 0)
                        close(acceptor->reserve);

                free(acceptor);
        }
}
