/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/helper.h"
#include "roles/helper_os.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void helper_kill(int pidfd, pid_t pid) {
        if (pidfd >= 0 && (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0 || errno == ESRCH))
                return; /* it is killed, or was waited for: then its number may be somebody else's */
        if (pid > 0)    /* the kernel cannot signal by descriptor */
                kill(pid, SIGKILL);
}

int helper_self(char ret[static PATH_MAX], struct stat *ret_own, struct err *err) {
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
        if (n > 0)
                ret[n] = '\0';
        if (n <= 0 || !strchr(ret, '/') || stat("/proc/self/exe", ret_own) < 0)
                return err_errno(err, "cannot find out where this program is (/proc/self/exe)");
        return 0;
}
