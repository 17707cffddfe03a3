/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/signals.h"

#include <errno.h>
#include <sys/signalfd.h>

int signals_catch(const int *numbers, size_t n, sigset_t *ret_before) {
        sigset_t set, before;

        sigemptyset(&set);
        for (size_t i = 0; i < n; i++)
                sigaddset(&set, numbers[i]);

        if (sigprocmask(SIG_BLOCK, &set, &before) < 0)
                return -1;
        if (ret_before)
                *ret_before = before;

        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0) {
                int error = errno;

                (void)sigprocmask(SIG_SETMASK, &before, NULL);
                errno = error;
        }

        return fd;
}

int signals_catch_end(void) {
        static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };

        return signals_catch(numbers, sizeof numbers / sizeof *numbers, NULL);
}
