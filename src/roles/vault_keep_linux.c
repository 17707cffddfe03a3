/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/vault_messages.h"
#include "roles/vault_keep.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the kernel has memfd_secret it is of that kind: it cannot be read through a descriptor, only mapped. */
int vault_keep_new(int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = -1;

#ifdef SYS_memfd_secret
        fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
#endif
        if (fd < 0)
                fd = memfd_create("bailey-vault-keep", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, VAULT_KEEP_BYTES) < 0)
                return err_errno(err, "cannot make memory for the vault's CA");

        *ret_fd = take_fd(&fd);
        return 0;
}
