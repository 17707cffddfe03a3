/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What systems differ in, for spawn.c. Both are called in the child, which shares its parent's memory: system calls
 * only. */
#include <stdbool.h>

/* Closes every descriptor above this one. */
bool spawn_close_above(int fd);
/* Where the kernel can be told that a process ends with its parent, it is. */
void spawn_end_with_parent(void);
