/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel queue takes the place of eventfd and pidfd: it can be polled, and no child inherits it. */
#include "api/api_os.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/event.h>
#include <unistd.h>

static int queue_with(const struct kevent *event) {
        int queue = kqueue();
        if (queue < 0)
                return -errno;
        if (kevent(queue, event, 1, NULL, 0, NULL) == 0)
                return queue;

        int code = errno;
        close(queue);
        return -code;
}

int api_flag_new(void) {
        struct kevent event;

        EV_SET(&event, 0, EVFILT_USER, EV_ADD, 0, 0, NULL);
        return queue_with(&event);
}

/* Without EV_CLEAR it stays raised. */
void api_flag_raise(int flag) {
        struct kevent event;
        int before = errno;

        EV_SET(&event, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
        (void)kevent(flag, &event, 1, NULL, 0, NULL);
        errno = before;
}

int api_cond_init(pthread_cond_t *cond) {
        return pthread_cond_init(cond, NULL);
}

/* A condition knows only the clock of the day there, or a time from now on. */
int api_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *end) {
        struct timespec now, left;

        clock_gettime(CLOCK_MONOTONIC, &now);
        left.tv_sec = end->tv_sec - now.tv_sec;
        left.tv_nsec = end->tv_nsec - now.tv_nsec;
        if (left.tv_nsec < 0) {
                left.tv_nsec += 1000000000;
                left.tv_sec--;
        }

        if (left.tv_sec < 0)
                return ETIMEDOUT;
        return pthread_cond_timedwait_relative_np(cond, lock, &left);
}

/* A child that has ended and was not waited for is an error on some versions: it is readable then, too. */
int api_child_watch(pid_t pid) {
        struct kevent event;

        EV_SET(&event, pid, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
        int queue = queue_with(&event);
        if (queue != -ESRCH)
                return queue < 0 ? -1 : queue;

        queue = api_flag_new();
        if (queue < 0)
                return -1;
        api_flag_raise(queue);
        return queue;
}

/* By number: nobody but child_wait() waits for it, so the number is still its own. */
void api_child_kill(int watch, pid_t pid) {
        (void)watch;
        kill(pid, SIGKILL);
}
