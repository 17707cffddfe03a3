/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stdint.h>

typedef void file_progress(void *arg, uint64_t bytes);

/* The first `size` bytes of a file into an empty one. Holes stay holes, and the two share their blocks where the kernel
 * can do that. A file that is shorter by now is copied as it is. on_bytes (or NULL) is told of each piece. */
int file_copy_content(int source, int target, uint64_t size, file_progress *on_bytes, void *arg);
