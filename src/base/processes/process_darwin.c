/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/process.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sysctl.h>

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
