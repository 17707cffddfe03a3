/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A key of type user in the kernel's keyring. */
#include "base/err.h"

#include <stddef.h>

/* `ret` has VAULT_SECRET_MAX bytes. */
int source_read_keyring(const char *description, char *ret, size_t *ret_n, struct err *err);
