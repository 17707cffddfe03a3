/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/secret.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/secrets/secret_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Secret memory when the kernel has it, locked ordinary memory otherwise. */
int secret_map(char *at, size_t n, struct err *err) {
#ifdef SYS_memfd_secret
        cleanup(close_fd) int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
        if (fd >= 0 && ftruncate(fd, (off_t)n) == 0 &&
            mmap(at, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
                /* Shared memory: a child that freed its copy would wipe ours. It gets none. */
                if (madvise(at, n, MADV_DONTFORK) < 0)
                        return err_errno(err, "cannot keep a secret from child processes");
                return 0;
        }

#endif
        if (mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
                return err_errno(err, "cannot map memory for a secret");
        if (mlock(at, n) < 0)
                return err_errno(err, "cannot lock memory for a secret (see `ulimit -l`)");
        if (madvise(at, n, MADV_DONTDUMP) < 0)
                return err_errno(err, "cannot keep a secret out of core dumps");
        if (madvise(at, n, MADV_WIPEONFORK) < 0)
                return err_errno(err, "cannot keep a secret from child processes");

        return 0;
}
