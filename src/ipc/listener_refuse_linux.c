/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/listener_refuse.h"

#include <poll.h>
#include <sys/socket.h>

enum {
        REFUSED_MAX = 1024, /* of one listener, in one step */
        FAILED_MAX = 4,     /* in a row: a connection that its client has given up fails once, and is gone */
};

/* A question is given back as it came, as an answer that says that the server failed. */
static bool refuse_datagram(int fd) {
        enum { HEADER = 12, FLAGS = 2, ANSWER = 0x80, CODE = 0x0f, SERVER_FAILED = 2 };
        unsigned char question[1500];
        struct sockaddr_storage peer;
        socklen_t n_peer = sizeof peer;
        ssize_t n = recvfrom(fd, question, sizeof question, MSG_DONTWAIT, (struct sockaddr *)&peer, &n_peer);

        if (n < 0)
                return false;
        if (n < HEADER || question[FLAGS] & ANSWER)
                return true;

        question[FLAGS] |= ANSWER;
        question[FLAGS + 1] = (unsigned char)((question[FLAGS + 1] & ~CODE) | SERVER_FAILED);
        (void)sendto(fd, question, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&peer, n_peer);

        return true;
}

static bool something_waits(int fd) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };

        return poll(&ready, 1, 0) > 0;
}

static bool refuse_one(int fd, uint32_t kind) {
        if (kind == LISTENER_DNS_UDP)
                return refuse_datagram(fd);

        cleanup(close_fd) int client = accept(fd, NULL, NULL);
        return client >= 0;
}

/* Packets need no answer, and connections that somebody else accepted stay with them. */
bool listener_can_refuse(uint32_t kind) {
        return kind != LISTENER_PACKETS && kind != LISTENER_HANDED;
}

bool listener_refuse(int fd, uint32_t kind) {
        unsigned failed = 0;

        for (unsigned i = 0; i < REFUSED_MAX && failed < FAILED_MAX && something_waits(fd); i++) {
                if (refuse_one(fd, kind))
                        failed = 0;
                else
                        failed++;
        }

        return failed < FAILED_MAX;
}
