/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What systems differ in, for helper.c. */
#include "base/err.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The file that this process executes: its path, which has a '/', and what it is. */
int helper_self(char ret[static PATH_MAX], struct stat *ret_own, struct err *err);
