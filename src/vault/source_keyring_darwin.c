/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/source_keyring.h"

#include <errno.h>

int source_read_keyring(const char *description, char *ret, size_t *ret_n, struct err *err) {
        (void)ret;
        (void)ret_n;
        return err_set(
            err, ENOTSUP,
            "keyring:%s: the kernel of macOS has no keyring; a command of the user's (cmd:) can ask the keychain",
            description);
}
