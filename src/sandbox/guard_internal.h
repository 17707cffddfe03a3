/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the guard. */
#include "base/buf.h"

#include <stdbool.h>

/* The configuration of a repository that the sandbox made: the harmless part of it. *ret_more says that there is more
 * than that. -EINVAL where it is no file, or a file with other names: then it is to be moved away whole. */
int guard_git_filter(int dir, const char *name, bool module, struct buf *ret_harmless, bool *ret_more);
/* Writes the harmless part in place: the same file, so that another sandbox's mount on it stays. */
int guard_git_write(int dir, const char *name, const struct buf *harmless);
/* A directory of hooks in which git put its examples and nothing else is. */
bool guard_only_samples(int dir, const char *name);
