/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The part of denials.c that a child does, inside the sandbox's namespaces. */
#include <stddef.h>

/* Masks every path that exists in the namespaces and is not masked yet. The first one is urgent. Returns as
 * denials_step(), without words. */
int mask_again(int mount_ns, char *const *paths, size_t n, size_t first);
