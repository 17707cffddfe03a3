/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/err.h"

#include <stdbool.h>

/* What is otherwise there on a Mac than on Linux, for people or as one JSON object. Returns an
 * exit status. */
int macos_differences_print(bool json, struct err *err);
