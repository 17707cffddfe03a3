/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Attributes of mounts without mount_setattr(). */
#include <stdbool.h>
#include <stdint.h>

/* `place`: O_PATH on the root of an attached mount. Also makes it private. */
int mounts_classic_set(int place, uint64_t attributes, bool recursive);
