/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/listener_refuse.h"

#include <poll.h>
#include <sys/socket.h>

enum { REFUSED_MAX = 1024 }; /* of one listener, in one step */

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

static bool refuse_one(int fd, uint32_t kind) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };

        if (poll(&ready, 1, 0) <= 0)
                return false;
        if (kind == LISTENER_DNS_UDP)
                return refuse_datagram(fd);

        cleanup(close_fd) int client = accept(fd, NULL, NULL);
        return client >= 0;
}

/* Packets need no answer, and connections that somebody else accepted stay with them. */
bool listener_can_refuse(uint32_t kind) {
        return kind != LISTENER_PACKETS && kind != LISTENER_HANDED;
}

void listener_refuse(int fd, uint32_t kind) {
        for (unsigned i = 0; i < REFUSED_MAX && refuse_one(fd, kind); i++)
                ;
}
