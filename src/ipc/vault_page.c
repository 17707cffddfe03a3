/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/vault_page_os.h"

#include <errno.h>
#include <sys/mman.h>

int vault_page_new(size_t n, struct vault_page **ret, int *ret_fd, struct err *err) {
        struct vault_page *page = NULL;

        if (n > VAULT_MAPPINGS_MAX)
                return err_set(err, EINVAL, "%zu credentials; at most %d are possible", n, VAULT_MAPPINGS_MAX);

        int r = vault_page_make(&page, ret_fd, err);
        if (r < 0)
                return r;

        page->magic = VAULT_PAGE_MAGIC;
        page->n = n;
        *ret = page;
        return 0;
}

int vault_page_open(int fd, const struct vault_page **ret, struct err *err) {
        if (!vault_page_is_made(fd))
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
