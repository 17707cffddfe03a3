/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which errand bailey-gateway was started for, by its arguments. */
#include "base/err.h"

#include <stdbool.h>

/* Whether the arguments name one; without it the process is a gateway. */
bool errand_is_named(int argc, char **argv);
int errand_run(char **argv, struct err *err);
