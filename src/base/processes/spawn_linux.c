/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/spawn.h"
#include "base/processes/spawn_os.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool spawn_close_above(int fd) {
        return syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0) == 0 || errno == ENOSYS;
}

void spawn_end_with_parent(void) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* There may be no other processor, or the caller may not choose: then it stays where it is. */
void spawn_send_away(pid_t pid) {
        cpu_set_t all, others;
        int here = sched_getcpu();

        if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(pid, sizeof all, &all) < 0)
                return;

        others = all;
        CPU_CLR(here, &others);
        if (CPU_COUNT(&others) > 0 && sched_setaffinity(pid, sizeof others, &others) == 0)
                (void)sched_setaffinity(pid, sizeof all, &all);
}
