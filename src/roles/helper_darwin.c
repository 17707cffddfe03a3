/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/helper.h"
#include "roles/helper_os.h"

#include <errno.h>
#include <mach-o/dyld.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By number: it is our child, and nobody but role_reap() and role_end() waits for it, so the number is still its own.
 */
void helper_kill(int pidfd, pid_t pid) {
        (void)pidfd;
        if (pid > 0)
                kill(pid, SIGKILL);
}

int helper_self(char ret[static PATH_MAX], struct stat *ret_own, struct err *err) {
        char named[PATH_MAX];
        uint32_t size = sizeof named;

        if (_NSGetExecutablePath(named, &size) != 0)
                return err_set(err, ENAMETOOLONG, "the path of this program is too long");
        if (!realpath(named, ret) || stat(ret, ret_own) < 0)
                return err_errno(err, "cannot find out where this program is (%s)", named);
        return 0;
}
