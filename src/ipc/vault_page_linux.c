/* SPDX-License-Identifier: Apache-2.0 */
/* The page: a file that was sealed while one mapping of it could write. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/vault_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int vault_page_new(size_t n, struct vault_page **ret, int *ret_fd, struct err *err) {
        if (n > VAULT_MAPPINGS_MAX)
                return err_set(err, EINVAL, "%zu credentials; at most %d are possible", n, VAULT_MAPPINGS_MAX);

        cleanup(close_fd) int fd = memfd_create("bailey-vault-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || ftruncate(fd, sizeof(struct vault_page)) < 0)
                return err_errno(err, "cannot make the page of serial numbers");

        struct vault_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED)
                return err_errno(err, "cannot map the page of serial numbers");

        page->magic = VAULT_PAGE_MAGIC;
        page->n = n;

        /* From here on only the mapping above can write. */
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
                int r = err_errno(err, "cannot seal the page of serial numbers (needs Linux 5.1)");

                vault_page_close(page);
                return r;
        }

        *ret = page;
        *ret_fd = take_fd(&fd);

        return 0;
}

int vault_page_open(int fd, const struct vault_page **ret, struct err *err) {
        const int wanted = F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
        int seals = fcntl(fd, F_GET_SEALS);
        struct stat st;

        if (seals < 0 || (seals & wanted) != wanted || fstat(fd, &st) < 0 ||
            st.st_size != (off_t)sizeof(struct vault_page))
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
