/* SPDX-License-Identifier: Apache-2.0 */
/* The page: a file without a name, which the vault has mapped for writing. What it hands out can only be read. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/fd_nameless.h"
#include "ipc/vault_messages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int vault_page_new(size_t n, struct vault_page **ret, int *ret_fd, struct err *err) {
        if (n > VAULT_MAPPINGS_MAX)
                return err_set(err, EINVAL, "%zu credentials; at most %d are possible", n, VAULT_MAPPINGS_MAX);

        cleanup(close_fd) int writer = -1, reader = -1;
        int r = fd_nameless("vault-page", &writer, &reader);
        if (r < 0)
                return err_set(err, -r, "cannot make the page of serial numbers: %s", strerror(-r));
        if (ftruncate(writer, sizeof(struct vault_page)) < 0)
                return err_errno(err, "cannot make the page of serial numbers");

        struct vault_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
        if (page == MAP_FAILED)
                return err_errno(err, "cannot map the page of serial numbers");

        page->magic = VAULT_PAGE_MAGIC;
        page->n = n;
        *ret = page;
        *ret_fd = take_fd(&reader);

        return 0;
}

int vault_page_open(int fd, const struct vault_page **ret, struct err *err) {
        size_t size = 0;
        if (!fd_is_sealed(fd, &size) || size != sizeof(struct vault_page))
                return err_set(err, EPROTO, "the vault's page of serial numbers is not what it must be");

        const struct vault_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED)
                return err_errno(err, "cannot map the vault's page of serial numbers");

        if (page->magic != VAULT_PAGE_MAGIC || page->n > VAULT_MAPPINGS_MAX) {
                vault_page_close(page);
                return err_set(err, EPROTO, "the vault's page of serial numbers is of another version");
        }

        *ret = page;
        return 0;
}

void vault_page_close(const struct vault_page *page) {
        if (page)
                munmap((void *)page, sizeof *page);
}
