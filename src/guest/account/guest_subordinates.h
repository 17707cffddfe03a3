/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The lines of /etc/subuid and /etc/subgid by which a host user may start a guest that has an account. Root has none.
 */
#include "base/err.h"

#include <stdint.h>

int guest_subordinate_add(const char *host, uint32_t uid, uint32_t gid, struct err *err);
int guest_subordinate_remove(const char *host, uint32_t uid, uint32_t gid, struct err *err);
