/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The system's side of base/secrets/secret.h. */
#include "base/err.h"

/* Data pages over the middle of the reservation: kept out of swap, of core files and of child processes, as far as the
 * system can. */
int secret_map(char *at, size_t n, struct err *err);
