/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_os.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

int api_flag_new(void) {
        int flag = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return flag < 0 ? -errno : flag;
}

void api_flag_raise(int flag) {
        const uint64_t one = 1;
        int before = errno;

        (void)!write(flag, &one, sizeof one);
        errno = before;
}

int api_cond_init(pthread_cond_t *cond) {
        pthread_condattr_t attributes;
        int r = pthread_condattr_init(&attributes);
        if (r)
                return r;

        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        r = pthread_cond_init(cond, &attributes);
        pthread_condattr_destroy(&attributes);
        return r;
}

int api_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *end) {
        return pthread_cond_timedwait(cond, lock, end);
}

int api_child_watch(pid_t pid) {
        return (int)syscall(SYS_pidfd_open, pid, 0);
}

void api_child_kill(int watch, pid_t pid) {
        if (watch >= 0)
                (void)syscall(SYS_pidfd_send_signal, watch, SIGKILL, NULL, 0);
        else
                kill(pid, SIGKILL);
}
