/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/vault_messages.h"
#include "vault/source_keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int source_read_keyring(const char *description, char *ret, size_t *ret_n, struct err *err) {
        long key = syscall(SYS_request_key, "user", description, NULL, 0);
        if (key < 0) /* the user's own keyring is not always linked to the session's */
                key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description, 0);
        if (key < 0)
                return err_errno(err, "the kernel's keyring has no key \"%s\" of type user", description);

        long n = syscall(SYS_keyctl, KEYCTL_READ, key, ret, VAULT_SECRET_MAX);
        if (n < 0)
                return err_errno(err, "the key cannot be read");
        if (n > VAULT_SECRET_MAX)
                return err_set(err, EMSGSIZE, "the key is larger than %d bytes", VAULT_SECRET_MAX);

        *ret_n = (size_t)n;
        return 0;
}
