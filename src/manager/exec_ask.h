/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A question about a command, on the terminal. Nothing of the command runs yet, so that the terminal is ours. */
#include "manager/check.h"

#include <stdint.h>

enum exec_answer { EXEC_NOBODY, EXEC_NO, EXEC_YES };

/* EXEC_NOBODY: no terminal, or we are in its background. Silence for timeout_ns is a no. */
enum exec_answer exec_ask(const char *command, const struct check_verdict *v, uint64_t timeout_ns);
