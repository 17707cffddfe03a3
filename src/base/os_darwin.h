/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the C library of macOS lacks and the portable part uses. Included before every file by scripts/macos, and by
 * nothing else. */
#include <stddef.h>

/* An error that it has no number for; above its own. */
#define ENOTUNIQ 1076

void *reallocarray(void *memory, size_t n, size_t size);
