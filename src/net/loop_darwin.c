/* SPDX-License-Identifier: Apache-2.0 */
/* By kqueue, whose events libevent does not tell the end of a peer from. */
#include "net/loop_os.h"

#include <errno.h>
#include <sys/event.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const bool loop_tells_ends = false;

enum { WAKE = 1 };

/* A queue with an event of our own in it: it is readable while that is raised, and no child inherits it. */
int loop_wake_new(void) {
        struct kevent wake;
        int queue = kqueue();

        EV_SET(&wake, WAKE, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0, NULL);
        if (queue >= 0 && kevent(queue, &wake, 1, NULL, 0, NULL) < 0) {
                int saved = errno;
                close(queue);
                errno = saved;
                return -1;
        }

        return queue;
}

void loop_wake_raise(int fd) {
        struct kevent wake;

        EV_SET(&wake, WAKE, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
        while (kevent(fd, &wake, 1, NULL, 0, NULL) < 0 && errno == EINTR)
                ;
}

void loop_wake_clear(int fd) {
        const struct timespec at_once = { 0 };
        struct kevent wake;

        (void)kevent(fd, NULL, 0, &wake, 1, &at_once);
}

ssize_t socket_receive(int fd, void *to, size_t n) {
        return recv(fd, to, n, 0);
}

ssize_t socket_send(int fd, const void *from, size_t n) {
        return send(fd, from, n, MSG_NOSIGNAL);
}
