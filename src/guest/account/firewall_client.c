/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/account/firewall_reader.h"
#include "guest/account/firewall_reader_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ANSWER_MS = 5000 };

static int reader_ask(const struct guest *guest, const struct firewall_request *request, int *ret_fd, struct err *err) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/" FIREWALL_SOCKET, guest->fd);
        if (connect(fd, (const struct sockaddr *)&name, sizeof name) < 0 ||
            send(fd, request, sizeof *request, MSG_NOSIGNAL) < 0)
                return err_set(err, ENOTCONN, "nobody reads its log");

        *ret_fd = take_fd(&fd);
        return 0;
}

/* 1: a byte; 0: it ended; -ETIMEDOUT. */
static int reader_answer(int fd, uint64_t until_ns, char *ret) {
        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd polled = { .fd = fd, .events = POLLIN };

                if (now >= until_ns)
                        return -ETIMEDOUT;
                if (poll(&polled, 1, (int)((until_ns - now) / NS_PER_MS) + 1) <= 0)
                        continue;

                ssize_t n = recv(fd, ret, 1, MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                return n == 1;
        }
}

int firewall_reader_watch(const struct guest *guest, int *ret_fd, struct err *err) {
        return reader_ask(guest, &(struct firewall_request){ .what = FIREWALL_WATCH }, ret_fd, err);
}

void firewall_reader_stop(const struct guest *guest) {
        cleanup(close_fd) int fd = -1;
        struct err ignored = { 0 };
        char word;

        if (reader_ask(guest, &(struct firewall_request){ .what = FIREWALL_END }, &fd, &ignored) < 0)
                return;
        (void)reader_answer(fd, clock_ns() + ANSWER_MS * NS_PER_MS, &word);
}

int firewall_reader_try(const struct guest *guest, uint16_t port, int *ret_fd, struct err *err) {
        const struct firewall_request request = { .what = FIREWALL_TRY, .port = port };
        cleanup(close_fd) int fd = -1;
        char word = 0;
        int r = reader_ask(guest, &request, &fd, err);

        if (r < 0)
                return r;
        if (reader_answer(fd, clock_ns() + ANSWER_MS * NS_PER_MS, &word) != 1 || word != FIREWALL_READY)
                return err_set(err, ETIMEDOUT, "the reader of its log does not answer");

        *ret_fd = take_fd(&fd);
        return 0;
}

int firewall_reader_heard(int fd, struct err *err) {
        uint64_t until = clock_ns() + ANSWER_MS * NS_PER_MS;
        bool tcp = false, udp = false;
        char word;

        while (!tcp || !udp) {
                if (reader_answer(fd, until, &word) != 1)
                        return err_set(err, ETIMEDOUT, "its log does not show what is refused");
                tcp |= word == FIREWALL_TCP;
                udp |= word == FIREWALL_UDP;
        }

        return 0;
}
