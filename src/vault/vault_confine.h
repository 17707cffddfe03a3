/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the vault and its reader give up. */
#include "base/err.h"
#include "vault/reader_places.h"

#include <stdbool.h>

/* The vault, when its files are read and its reader runs: descriptors that are open, memory, time and chance are left.
 * No file, no socket, no process, no signal to others; any other system call ends it. */
int confine_vault(struct err *err);
/* The reader: no socket, no tracing, no other privileges; without `programs` nothing can be executed either. With them
 * it keeps what programs need (the user's own tools fetch secrets over the network). Where the system can, only the
 * files in `places` are left. */
int confine_reader(bool programs, const struct reader_places *places, struct err *err);
