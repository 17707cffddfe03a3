/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_listen.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/match/addr.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int run_listen_loopback(uint16_t *ret_port, int *ret_fd, struct err *err) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof at;
        const int on = 1;
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0) /* accepted sockets inherit it, also those that come before the gateway does */
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

        if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 1024) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &n) < 0)
                return err_errno(err, "cannot listen for the sandbox's connections");

        *ret_port = ntohs(at.sin_port);
        *ret_fd = take_fd(&fd);

        return 0;
}

void run_listen_close(int fds[static PLAN_LISTENERS_MAX]) {
        for (size_t i = 0; i < PLAN_LISTENERS_MAX; i++)
                if (fds[i] > 0)
                        close_fd(&fds[i]);
}

int run_listen_published(const struct plan *plan, int fds[static PLAN_LISTENERS_MAX], struct err *err) {
        for (size_t i = 0; i < plan->publish.n; i++) {
                const struct plan_publish *publish = &plan->publish.p[i];
                struct addr address;
                struct sockaddr_storage to;
                const int on = 1;

                if (!addr_parse(str_of(publish->address), &address) ||
                    addr_classify(&address) == ADDR_CLASS_UNSPECIFIED)
                        return err_set(err, EINVAL,
                                       "--publish %s:%u: give one address of this host (127.0.0.1 if you leave it out)",
                                       publish->address, publish->outside);

                socklen_t n = addr_to_sockaddr(&address, publish->outside, &to);
                int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                fds[i] = fd;

                if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
                    bind(fd, (struct sockaddr *)&to, n) < 0 || listen(fd, 128) < 0)
                        return err_errno(err, "cannot publish on %s port %u", publish->address, publish->outside);
        }

        return 0;
}
