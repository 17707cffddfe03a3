/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the guard. */
#include <stdbool.h>

/* `.git/config` of a repository that the sandbox made: leaves the harmless part of it. 0, or 1 when there was more, or
 * a negative errno: then it is to be removed. */
int guard_git_config(int dir, const char *name);
/* A directory of hooks in which git put its examples and nothing else is. */
bool guard_only_samples(int dir, const char *name);
