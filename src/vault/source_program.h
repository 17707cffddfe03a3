/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Runs a program and collects what it prints; its messages go to our standard error, it has no input. A name without a
 * slash is looked for in the PATH of the environment given. Fails when it cannot be started, ends with another status
 * than 0, or prints more than the buffer's maximum. Its output is in no message. Time is the caller's matter. */
int program_run(const char *program, char *const *argv, char *const *environment, struct buf *out, struct err *err);
