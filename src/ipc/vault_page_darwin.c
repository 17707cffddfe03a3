/* SPDX-License-Identifier: Apache-2.0 */
/* There is no vault on macOS yet, and no file there that only one mapping can write. */
#include "ipc/vault_messages.h"

#include <errno.h>

int vault_page_open(int fd, const struct vault_page **ret, struct err *err) {
        (void)fd;
        (void)ret;
        return err_set(err, ENOTSUP, "there is no vault on macOS");
}

void vault_page_close(const struct vault_page *page) {
        (void)page;
}
