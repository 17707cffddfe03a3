/* SPDX-License-Identifier: Apache-2.0 */
/* A file without a name, which the vault has mapped for writing. What it hands out can only be read. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/fd_nameless.h"
#include "ipc/vault_page_os.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int vault_page_make(struct vault_page **ret, int *ret_fd, struct err *err) {
        cleanup(close_fd) int writer = -1, reader = -1;
        int r = fd_nameless("vault-page", &writer, &reader);
        if (r < 0)
                return err_set(err, -r, "cannot make the page of serial numbers: %s", strerror(-r));
        if (ftruncate(writer, sizeof(struct vault_page)) < 0)
                return err_errno(err, "cannot make the page of serial numbers");

        struct vault_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
        if (page == MAP_FAILED)
                return err_errno(err, "cannot map the page of serial numbers");

        *ret = page;
        *ret_fd = take_fd(&reader);
        return 0;
}

bool vault_page_is_made(int fd) {
        size_t size = 0;
        return fd_is_sealed(fd, &size) && size == sizeof(struct vault_page);
}
