/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/confine.h"

#include <sys/resource.h>
#include <sys/types.h>

/* In libSystem; its header is not at hand. */
enum { DENY_ATTACH = 31 };
int ptrace(int request, pid_t pid, char *address, int data);

/* Root can still look; so can who turns off the system's protection of itself. */
int confine_memory(struct err *err) {
        const struct rlimit no_core = { 0, 0 };

        if (setrlimit(RLIMIT_CORE, &no_core) < 0)
                return err_errno(err, "cannot forbid core files");
        if (ptrace(DENY_ATTACH, 0, NULL, 0) < 0)
                return err_errno(err, "cannot refuse debuggers");

        return 0;
}
