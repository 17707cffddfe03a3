/* SPDX-License-Identifier: Apache-2.0 */
/* A file that was sealed while one mapping of it could write. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/vault_page_os.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };

int vault_page_make(struct vault_page **ret, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = memfd_create("bailey-vault-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || ftruncate(fd, sizeof(struct vault_page)) < 0)
                return err_errno(err, "cannot make the page of serial numbers");

        struct vault_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED)
                return err_errno(err, "cannot map the page of serial numbers");

        /* From here on only the mapping above can write. */
        if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0) {
                int r = err_errno(err, "cannot seal the page of serial numbers (needs Linux 5.1)");

                vault_page_close(page);
                return r;
        }

        *ret = page;
        *ret_fd = take_fd(&fd);
        return 0;
}

bool vault_page_is_made(int fd) {
        int seals = fcntl(fd, F_GET_SEALS);
        struct stat st;

        return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
               st.st_size == (off_t)sizeof(struct vault_page);
}
