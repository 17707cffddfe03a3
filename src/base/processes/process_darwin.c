/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/process.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/event.h>
#include <sys/sysctl.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

/* In microseconds; a zombie has ended. */
int process_start_time(pid_t pid, uint64_t *ret) {
        int name[] = { CTL_KERN, KERN_PROC, KERN_PROC_PID, pid };
        struct kinfo_proc found;
        size_t n = sizeof found;

        if (sysctl(name, 4, &found, &n, NULL, 0) < 0)
                return -errno;
        if (n < sizeof found || found.kp_proc.p_stat == SZOMB)
                return -ESRCH;

        *ret = (uint64_t)found.kp_proc.p_starttime.tv_sec * 1000000 + (uint64_t)found.kp_proc.p_starttime.tv_usec;
        return 0;
}

int process_boot(char ret[static PROCESS_BOOT_MAX], struct err *err) {
        size_t n = PROCESS_BOOT_MAX - 1;

        if (sysctlbyname("kern.bootsessionuuid", ret, &n, NULL, 0) < 0)
                return err_errno(err, "the name of this boot cannot be read");
        ret[n < PROCESS_BOOT_MAX ? n : PROCESS_BOOT_MAX - 1] = '\0';
        return 0;
}

bool process_outlives(pid_t pid, uint64_t start_time, int wait_ms) {
        const uint64_t until = clock_after_ms((uint64_t)wait_ms);

        for (;;) {
                uint64_t started;
                int r = process_start_time(pid, &started);

                if (r == -ESRCH || (r == 0 && started != start_time))
                        return false;
                if (clock_ns() >= until)
                        return true;
                (void)poll(NULL, 0, LOOK_MS);
        }
}

/* One that is readable from the beginning. */
static int ended_already(void) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        close(ends[1]);
        return ends[0];
}

/* A queue that holds the end of this process. No child inherits a queue. */
int process_watch(pid_t child) {
        struct kevent end;
        int queue = kqueue();
        if (queue < 0)
                return -errno;

        EV_SET(&end, child, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
        if (kevent(queue, &end, 1, NULL, 0, NULL) == 0)
                return queue;

        int code = errno;
        close(queue);
        return code == ESRCH ? ended_already() : -code;
}
