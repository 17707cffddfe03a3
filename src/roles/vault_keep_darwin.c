/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"
#include "ipc/vault_messages.h"
#include "roles/vault_keep.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared memory, whose name is gone at once. It is in no file; macOS encrypts what it swaps. */
int vault_keep_new(int *ret_fd, struct err *err) {
        char id[17], name[24];

        random_id(id, sizeof id);
        (void)snprintf(name, sizeof name, "/bailey%s", id);

        cleanup(close_fd) int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 || shm_unlink(name) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || ftruncate(fd, VAULT_KEEP_BYTES) < 0)
                return err_errno(err, "cannot make memory for the vault's CA");

        *ret_fd = take_fd(&fd);
        return 0;
}
