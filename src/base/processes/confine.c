/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/confine.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int confine_memory(struct err *err) {
        const struct rlimit no_core = { 0, 0 };
        if (setrlimit(RLIMIT_CORE, &no_core) < 0)
                return err_errno(err, "cannot forbid core files");
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_errno(err, "cannot become non-dumpable");
        return 0;
}

int confine_privileges(struct err *err) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_errno(err, "cannot set NO_NEW_PRIVS");

        /* Without the capability for it (an ordinary user) the bounding set stays; NO_NEW_PRIVS makes it useless. */
        for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
                ;

        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if (syscall(SYS_capset, &header, none) < 0)
                return err_errno(err, "cannot drop capabilities");

        return confine_memory(err);
}

/* Own constants, since the headers that a build finds may be older than the kernel it runs on. */
struct landlock_attr {
        uint64_t fs, net, scoped;
};

#define CONNECT_TCP (1ULL << 1)

static const struct landlock_step {
        int abi;
        struct landlock_attr adds;
        size_t size; /* of the struct that this ABI takes */
} landlock_steps[] = {
        { 1, { .fs = (1ULL << 13) - 1 }, 8 },
        { 2, { .fs = 1ULL << 13 }, 8 },                 /* refer */
        { 3, { .fs = 1ULL << 14 }, 8 },                 /* truncate */
        { 4, { .net = 1ULL << 0 | CONNECT_TCP }, 16 },  /* bind and connect TCP */
        { 5, { .fs = 1ULL << 15 }, 16 },                /* ioctl on devices */
        { 6, { .scoped = 1ULL << 0 | 1ULL << 1 }, 24 }, /* abstract sockets and signals of others */
};

enum { LANDLOCK_CREATE = 444, LANDLOCK_RESTRICT = 446, LANDLOCK_VERSION = 1 };

int confine_files(bool connects, struct err *err) {
        long abi = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
        if (abi < 1)
                return 0; /* an old kernel, or switched off */

        struct landlock_attr attr = { 0 };
        size_t size = 0;

        for (size_t i = 0; i < sizeof landlock_steps / sizeof *landlock_steps && landlock_steps[i].abi <= abi; i++) {
                attr.fs |= landlock_steps[i].adds.fs;
                attr.net |= landlock_steps[i].adds.net;
                attr.scoped |= landlock_steps[i].adds.scoped;
                size = landlock_steps[i].size;
        }

        if (connects)
                attr.net &= ~CONNECT_TCP;

        cleanup(close_fd) int ruleset = (int)syscall(LANDLOCK_CREATE, &attr, size, 0);
        if (ruleset < 0)
                return err_errno(err, "cannot create the Landlock ruleset");
        if (syscall(LANDLOCK_RESTRICT, ruleset, 0) < 0)
                return err_errno(err, "cannot enforce the Landlock ruleset");

        return 0;
}
