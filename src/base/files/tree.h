/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whole directory trees, without following a link. */
#include "base/files/file_copy.h"

#include <stdint.h>

/* Removes whatever has this name in the directory: a file, a link, or a directory with all that is in it (also one
 * whose owner closed it, however deeply nested). 0 when it is not there. After an error as much as possible is gone. */
int tree_remove(int parent_fd, const char *name);

/* Copies files, directories and links; the copy belongs to this user, without set-id bits. Special files are left out.
 * Holes stay holes. -E2BIG for more than a bounded number of entries, bytes or levels; then, and after every error,
 * nothing is left of the copy. -EEXIST also when somebody else puts something into it meanwhile, or where names differ
 * only by case and the file system does not tell them apart. */
int tree_copy(int from_fd, const char *from, int to_fd, const char *to);

/* The same for a person who has asked for exactly this: as many entries and bytes as there are. `on_bytes` (or NULL)
 * hears how many more are there. Only the number of levels stays bounded. */
int tree_copy_whole(int from_fd, const char *from, int to_fd, const char *to, file_progress *on_bytes, void *arg);
