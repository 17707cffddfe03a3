/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: bytes from one socket to the other, both ways, until both ends are done. It looks at none of them. It has
 * given up all privileges before it starts, holds at most CONNECTIONS_MAX pairs (further ones wait in the listener's
 * queue), and ends with the sandbox.
 */
#include "sandbox/linux/publish.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, BUFFER = 65536 };

struct half { /* one direction */
        char *bytes;
        size_t at, n;
        bool ended, closed; /* the source said end; the sink was told */
};
struct pair {
        int outside, inside; /* -1: free */
        bool connecting;
        struct half in, out; /* in: from outside to inside */
};
struct relay {
        const struct plan *plan;
        const int *listeners;
        struct pair pairs[CONNECTIONS_MAX];
        size_t open;
};

static void pair_close(struct relay *relay, struct pair *pair) {
        close_fd(&pair->outside);
        close_fd(&pair->inside);
        free(pair->in.bytes);
        free(pair->out.bytes);
        pair->in = pair->out = (struct half){ 0 };
        relay->open--;
}

/* As far as both sockets go without waiting. False: the connection is broken. */
static bool publish_pump(struct half *half, int from, int to) {
        if (!half->ended && half->n == 0) {
                if (!half->bytes && !(half->bytes = malloc(BUFFER)))
                        return false;

                ssize_t got = recv(from, half->bytes, BUFFER, 0);
                if (got < 0)
                        return errno == EAGAIN || errno == EINTR;

                half->at = 0;
                half->n = (size_t)got;
                half->ended = got == 0;
        }

        if (half->n) {
                ssize_t put = send(to, half->bytes + half->at, half->n, MSG_NOSIGNAL);
                if (put < 0)
                        return errno == EAGAIN || errno == EINTR;

                half->at += (size_t)put;
                half->n -= (size_t)put;
        }

        if (half->ended && half->n == 0 && !half->closed) {
                half->closed = true;
                shutdown(to, SHUT_WR);
        }

        if (half->n == 0) { /* an idle connection holds no buffer */
                free(half->bytes);
                half->bytes = NULL;
        }

        return true;
}

static int publish_dial(uint16_t port) {
        struct sockaddr_in to = { AF_INET, htons(port), { htonl(INADDR_LOOPBACK) }, { 0 } };
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int on = 1;
        if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS))
                return -1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only slower without */
        return take_fd(&fd);
}

static void take_connection(struct relay *relay, size_t which) {
        const int on = 1;
        int outside = accept4(relay->listeners[which], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (outside < 0)
                return;

        int inside = publish_dial(relay->plan->publish.p[which].inside);
        if (inside < 0) {
                close(outside);
                return;
        }

        (void)setsockopt(outside, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                if (relay->pairs[i].outside < 0) {
                        relay->pairs[i] = (struct pair){ .outside = outside, .inside = inside, .connecting = true };
                        relay->open++;
                        return;
                }
}

static short publish_wants(const struct half *from_here, const struct half *to_here) {
        short events = 0;
        if (!from_here->ended && from_here->n == 0)
                events |= POLLIN;
        if (to_here->n)
                events |= POLLOUT;

        return events;
}

static void step_pair(struct relay *relay, struct pair *pair, const struct pollfd *fds) {
        if (!fds[0].revents && !fds[1].revents)
                return;

        if (pair->connecting) {
                int error = 0;
                socklen_t n = sizeof error;

                if (!fds[1].revents)
                        return;

                if (getsockopt(pair->inside, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error) {
                        pair_close(relay, pair);
                        return;
                }

                pair->connecting = false;
        }

        bool whole = publish_pump(&pair->in, pair->outside, pair->inside) &&
                     publish_pump(&pair->out, pair->inside, pair->outside);
        if (!whole || (pair->in.closed && pair->out.closed))
                pair_close(relay, pair);
}

_Noreturn static void relay_main(struct relay *relay, size_t n) {
        static struct pollfd fds[PLAN_LISTENERS_MAX + 2 * CONNECTIONS_MAX];
        static struct pair *polled[CONNECTIONS_MAX];

        for (;;) {
                size_t n_fds = 0, n_pairs = 0;

                for (size_t i = 0; i < n; i++)
                        fds[n_fds++] = (struct pollfd){ .fd = relay->open < CONNECTIONS_MAX ? relay->listeners[i] : -1,
                                                        .events = POLLIN };

                for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                        struct pair *pair = &relay->pairs[i];
                        if (pair->outside < 0)
                                continue;

                        polled[n_pairs++] = pair;
                        short outside = publish_wants(&pair->in, &pair->out),
                              inside = publish_wants(&pair->out, &pair->in);
                        if (pair->connecting) {
                                outside = 0;
                                inside = POLLOUT;
                        }

                        fds[n_fds++] = (struct pollfd){ .fd = outside ? pair->outside : -1, .events = outside };
                        fds[n_fds++] = (struct pollfd){ .fd = inside ? pair->inside : -1, .events = inside };
                }

                if (poll(fds, n_fds, -1) < 0 && errno != EINTR)
                        _exit(1);

                for (size_t i = 0; i < n_pairs; i++)
                        step_pair(relay, polled[i], &fds[n + 2 * i]);

                for (size_t i = 0; i < n; i++)
                        if (fds[i].revents)
                                take_connection(relay, i);
        }
}

int publish_start(const struct plan *plan, int *listeners, size_t n, struct err *err) {
        pid_t pid = n ? fork() : 1;
        if (pid == 0) {
                static struct relay relay;

                relay = (struct relay){ .plan = plan, .listeners = listeners };
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        relay.pairs[i].outside = relay.pairs[i].inside = -1;

                for (int fd = 0; fd <= 2; fd++)
                        close(fd); /* who reads the command's output must see its end */

                prctl(PR_SET_NAME, "bailey-publish", 0, 0, 0);
                prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);

                /* What init keeps for the broker is not for the relay. */
                if (confine_capabilities(0, NULL) < 0 ||
                    (broker_filter_has_main(plan) && confine_syscalls(plan, CONFINE_THREAD, NULL) < 0))
                        _exit(1);

                relay_main(&relay, n);
        }

        for (size_t i = 0; i < n; i++)
                close_fd(&listeners[i]);

        if (pid < 0)
                return err_errno(err, "network: start the relay for published ports");

        return 0;
}
