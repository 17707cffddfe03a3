/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The file of the page (ipc/vault_messages.h), in which systems differ. */
#include "ipc/vault_messages.h"

/* The mapping can write. Whoever gets *ret_fd can neither write nor change the size. */
int vault_page_make(struct vault_page **ret, int *ret_fd, struct err *err);
/* Whether it is such a file, of this size. */
bool vault_page_is_made(int fd);
