/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which Unix socket listens at a name, as the kernel tells everybody (sock_diag). */
#include "base/str.h"

#include <stdint.h>
#include <sys/stat.h>

/* A socket that listens at this file, or (file NULL) at this abstract name: its number, as fstat() of its descriptor
 * has it. 0: there is none, or the kernel does not say. */
uint32_t unix_listener_at(int diag, const struct stat *file, struct str name);
