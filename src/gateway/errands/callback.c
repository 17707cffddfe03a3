/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/errands/callback.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "bridge/callback_message.h"
#include "bridge/callback_request.h"
#include "gateway/confine/gateway_confine.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VISITS_MAX = 16, HEAD_MS = 10000, INSIDE_MS = 15000, ANSWER_MAX = 1 << 20, REPORTS_MAX = 200 };

struct visit {
        int fd; /* -1: free */
        uint64_t due_ns;
        size_t n;
        char head[CALLBACK_HEAD_MAX];
};

struct flow {
        struct callback_start start;
        struct visit visits[VISITS_MAX];
        uint64_t due_ns, end_ns; /* the callback must have come; the process ends */
        bool carried;
        unsigned reports; /* flooding the port does not fill the record */
};

/* --- words --- */

static void flow_tell(struct flow *flow, enum callback_happening happening, uint32_t number) {
        const struct callback_word word = { happening, number };

        if (happening == CALLBACK_REFUSED && flow->reports++ >= REPORTS_MAX)
                return;
        (void)send(CALLBACK_FD, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void visit_answer(struct visit *visit, const char *status, const char *text) {
        char answer[1024];
        int n = snprintf(answer, sizeof answer,
                         "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                         "Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'\r\n"
                         "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
                         status, strlen(text), text);

        (void)send(visit->fd, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
        shutdown(visit->fd, SHUT_WR);
        close_fd(&visit->fd);
}

static void visit_refuse(struct flow *flow, struct visit *visit, enum callback_verdict verdict) {
        char text[256];

        snprintf(text, sizeof text, "Bailey: %s. You can close this page.\n", callback_verdict_text(verdict));
        visit_answer(visit, verdict == CALLBACK_SECOND || verdict == CALLBACK_LATE ? "410 Gone" : "403 Forbidden",
                     text);
        flow_tell(flow, CALLBACK_REFUSED, verdict);
}

/* --- inside --- */

static int inside_connect(int fd, uint16_t port, bool v6, uint64_t due_ns) {
        const struct sockaddr_in v4_to = { .sin_family = AF_INET,
                                           .sin_port = htons(port),
                                           .sin_addr = { htonl(INADDR_LOOPBACK) } };
        const struct sockaddr_in6 v6_to = { .sin6_family = AF_INET6,
                                            .sin6_port = htons(port),
                                            .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        const struct sockaddr *to = v6 ? (const struct sockaddr *)&v6_to : (const struct sockaddr *)&v4_to;
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        socklen_t n = sizeof(int);
        int error = 0;

        if (connect(fd, to, v6 ? sizeof v6_to : sizeof v4_to) == 0)
                return 0;
        if (errno != EINPROGRESS)
                return -errno;
        if (poll(&ready, 1, clock_left_ms(due_ns)) <= 0)
                return -ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error)
                return -EIO;

        return 0;
}

/* The socket is the supervisor's too and is used again: it is connected to nothing before and after. */
static void inside_release(int fd) {
        const struct sockaddr nothing = { .sa_family = AF_UNSPEC };

        (void)connect(fd, &nothing, sizeof nothing);
}

static uint32_t status_of(struct str answer) {
        uint64_t status = 0;

        if (answer.n < 12 || !str_starts(answer, STR("HTTP/1.")) || answer.p[8] != ' ' ||
            !str_to_u64(str_n(answer.p + 9, 3), 999, &status))
                return 0;
        return (uint32_t)status;
}

/* Until its end: the server inside is not interrupted. Only the beginning is looked at. */
static uint32_t inside_read_status(int fd, uint64_t due_ns) {
        char first[16], rest[4096];
        size_t n = 0, total = 0;

        while (total < ANSWER_MAX) {
                struct pollfd ready = { .fd = fd, .events = POLLIN };
                bool early = n < sizeof first;
                ssize_t got;

                if (poll(&ready, 1, clock_left_ms(due_ns)) <= 0)
                        break;

                if (early)
                        got = recv(fd, first + n, sizeof first - n, 0);
                else
                        got = recv(fd, rest, sizeof rest, 0);
                if (got < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (got <= 0)
                        break;
                if (early)
                        n += (size_t)got;

                total += (size_t)got;
        }

        return status_of(str_n(first, n));
}

/* False: nobody listens there. */
static bool inside_carry(const struct flow *flow, struct str request, uint32_t *ret_status) {
        uint64_t due_ns = clock_ns() + INSIDE_MS * NS_PER_MS;

        for (unsigned i = 0; i < flow->start.n_inside; i++) {
                int fd = CALLBACK_FD_INSIDE + (int)i;
                bool sent = false;

                inside_release(fd);
                if (inside_connect(fd, flow->start.callback.port, i == 1, due_ns) == 0)
                        sent = send(fd, request.p, request.n, MSG_NOSIGNAL) == (ssize_t)request.n;
                if (sent)
                        *ret_status = inside_read_status(fd, due_ns);

                inside_release(fd);
                if (sent)
                        return true;
        }

        return false;
}

static void visit_carry(struct flow *flow, struct visit *visit, struct str request) {
        uint32_t status = 0;

        if (!inside_carry(flow, request, &status)) {
                visit_answer(visit, "502 Bad Gateway", "Bailey: nobody listens inside the sandbox. Try again there.\n");
                flow_tell(flow, CALLBACK_NOBODY, 0);
                return;
        }

        flow->carried = true;
        flow->end_ns = clock_ns() + flow->start.linger_ms * NS_PER_MS;
        flow_tell(flow, CALLBACK_CARRIED, status);

        if (status >= 400)
                visit_answer(visit, "200 OK", "Bailey: the program inside got the answer, and reports an error.\n");
        else
                visit_answer(visit, "200 OK", "Bailey: the program inside got the answer. You can close this page.\n");
}

/* --- requests --- */

static void visit_judge(struct flow *flow, struct visit *visit) {
        cleanup(buf_done) struct buf request = BUF(2 * CALLBACK_HEAD_MAX);
        enum callback_verdict verdict = callback_judge(str_n(visit->head, visit->n), &flow->start.callback, &request);

        if (verdict == CALLBACK_MORE)
                return;

        if (flow->carried)
                verdict = CALLBACK_SECOND;
        else if (clock_ns() >= flow->due_ns)
                verdict = CALLBACK_LATE;

        if (verdict == CALLBACK_CARRY)
                visit_carry(flow, visit, buf_str(&request));
        else
                visit_refuse(flow, visit, verdict);
}

/* A browser opens connections that it does not use: those that say nothing are no attempt. */
static void visit_step(struct flow *flow, struct visit *visit, short ready) {
        ssize_t n;

        if (!ready && clock_ns() < visit->due_ns)
                return;

        if (ready)
                n = recv(visit->fd, visit->head + visit->n, sizeof visit->head - visit->n, MSG_DONTWAIT);
        else
                n = 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;

        if (n <= 0) {
                if (visit->n)
                        flow_tell(flow, CALLBACK_REFUSED, CALLBACK_MORE);
                close_fd(&visit->fd);
                return;
        }

        visit->n += (size_t)n;
        visit_judge(flow, visit);
}

static void flow_accept(struct flow *flow) {
        for (size_t i = 0; i < VISITS_MAX; i++) {
                struct visit *visit = &flow->visits[i];

                if (visit->fd >= 0)
                        continue;

                visit->fd = accept4(CALLBACK_FD_LISTENER, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                visit->n = 0;
                visit->due_ns = clock_ns() + HEAD_MS * NS_PER_MS;
                return;
        }
}

/* False: the flow is over. */
static bool flow_step(struct flow *flow) {
        struct pollfd fds[VISITS_MAX + 2] = { { .fd = CALLBACK_FD, .events = POLLIN } };
        uint64_t due_ns = flow->end_ns;
        bool room = false;

        for (size_t i = 0; i < VISITS_MAX; i++) {
                const struct visit *visit = &flow->visits[i];

                fds[2 + i] = (struct pollfd){ .fd = visit->fd, .events = POLLIN };
                room = room || visit->fd < 0;
                if (visit->fd >= 0 && visit->due_ns < due_ns)
                        due_ns = visit->due_ns;
        }

        fds[1] = (struct pollfd){ .fd = room ? CALLBACK_FD_LISTENER : -1, .events = POLLIN };
        if (poll(fds, VISITS_MAX + 2, clock_left_ms(due_ns)) < 0 && errno != EINTR)
                return false;
        if (fds[0].revents || clock_ns() >= flow->end_ns)
                return false;

        for (size_t i = 0; i < VISITS_MAX; i++)
                if (flow->visits[i].fd >= 0)
                        visit_step(flow, &flow->visits[i], fds[2 + i].revents);

        if (fds[1].revents)
                flow_accept(flow);

        return true;
}

static int flow_open(struct flow *flow, struct err *err) {
        struct callback_start *start = &flow->start;
        ssize_t n = recv(CALLBACK_FD, start, sizeof *start, 0);

        if (n != (ssize_t)sizeof *start || start->n_inside == 0 || start->n_inside > CALLBACK_INSIDE_MAX)
                return err_set(err, EBADMSG, "the callback was not told what to wait for");

        start->callback.host[sizeof start->callback.host - 1] = '\0';
        start->callback.path[sizeof start->callback.path - 1] = '\0';
        start->callback.state[sizeof start->callback.state - 1] = '\0';

        for (size_t i = 0; i < VISITS_MAX; i++)
                flow->visits[i].fd = -1;

        flow->due_ns = clock_ns() + start->time_ms * NS_PER_MS;
        flow->end_ns = flow->due_ns + start->linger_ms * NS_PER_MS;

        return 0;
}

int callback_main(struct err *err) {
        struct flow *flow = calloc(1, sizeof *flow);
        int r = flow ? flow_open(flow, err) : err_memory(err);

        if (r == 0)
                r = confine_gateway(err);

        if (r == 0) {
                flow_tell(flow, CALLBACK_READY, 0);
                while (flow_step(flow))
                        ;
        }

        free(flow);
        return r;
}
