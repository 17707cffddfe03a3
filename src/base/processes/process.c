/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/process.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { START_TIME_FIELD = 22, AFTER_NAME = 3 }; /* proc(5) counts from 1; the field after the name is the third */

bool process_parse_start_time(struct str stat, uint64_t *ret) {
        ptrdiff_t bracket = str_rfind(stat, ')');
        if (bracket < 0 || (size_t)bracket + 2 > stat.n)
                return false;

        struct str rest = str_skip(stat, (size_t)bracket + 2), part;
        for (int i = AFTER_NAME; str_split(&rest, ' ', &part); i++)
                if (i == START_TIME_FIELD)
                        return str_to_u64(part, UINT64_MAX, ret);

        return false;
}

int process_start_time(pid_t pid, uint64_t *ret) {
        char path[48];
        cleanup(buf_done) struct buf text = BUF(8192);

        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        int r = path_read_file(path, 8192, &text, NULL);
        if (r < 0)
                return r;

        if (!process_parse_start_time(buf_str(&text), ret))
                return -EBADMSG;

        return 0;
}

int process_boot(char ret[static PROCESS_BOOT_MAX], struct err *err) {
        cleanup(buf_done) struct buf text = BUF(64);
        int r = path_read_file("/proc/sys/kernel/random/boot_id", 64, &text, err);

        if (r < 0)
                return r;

        snprintf(ret, PROCESS_BOOT_MAX, "%.*s", (int)min_of(text.n, 36), text.p);
        return 0;
}

bool process_outlives(pid_t pid, uint64_t start_time, int wait_ms) {
        uint64_t until = clock_ns() + (uint64_t)wait_ms * (NS_PER_SECOND / 1000), started;
        cleanup(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);

        if (fd < 0 && errno == ESRCH)
                return false;

        int r = process_start_time(pid, &started);
        if (r == -ENOENT || r == -ESRCH || (r == 0 && started != start_time))
                return false; /* the number is nobody's or somebody else's by now */

        if (fd < 0 || r < 0)
                return true; /* it cannot be looked at or waited for, so nobody can say that it ended */

        for (;;) {
                struct pollfd end = { .fd = fd, .events = POLLIN };
                int n = poll(&end, 1, clock_left_ms(until));

                if (n < 0 && errno == EINTR)
                        continue;

                return n <= 0;
        }
}

int process_watch(pid_t child) {
        int fd = (int)syscall(SYS_pidfd_open, child, 0);
        if (fd < 0)
                return -errno;

        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        return fd;
}
