/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files that say by their lock whether the process that made them lives. */

#include "base/str.h"

/*
 * Makes a file with this text and an exclusive lock that ends with this process. The file gets its name only once it is
 * complete and locked, so a sweep of stale files never finds it unlocked. The directory is the caller's own, so that
 * nobody else makes the same name.
 */
int lock_file_new(int at, const char *path, struct str text, int *ret_fd);
