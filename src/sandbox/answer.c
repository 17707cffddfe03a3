/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/answer.h"

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/marks.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { SEND_MS = 1000 };

int broker_answer_send(int sock, uint32_t number, uint32_t value, int fd) {
        const struct broker_answer answer = { number, value };
        struct pollfd room = { .fd = sock, .events = POLLOUT };
        int r = fd_set_nonblocking(sock, true);

        if (r < 0)
                return r;

        r = fd_send(sock, str_n((const char *)&answer, sizeof answer), &fd, fd >= 0);
        if (r == -EAGAIN && poll(&room, 1, SEND_MS) > 0)
                r = fd_send(sock, str_n((const char *)&answer, sizeof answer), &fd, fd >= 0);

        return r;
}

void broker_answer_last(int sock, uint32_t number, uint32_t value) {
        int r = broker_answer_send(sock, number, value, -1);

        if (r == 0)
                return;
        if (r != -EPIPE && r != -ECONNRESET)
                log_warning("the sandbox's questions cannot be answered any more, and are refused: %s", strerror(-r));

        (void)shutdown(sock, SHUT_WR);
}
