/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whole directory trees, without following a link. */

/* Removes whatever has this name in the directory: a file, a link, or a directory with all that is in it (also one
 * whose owner closed it). 0 when it is not there; -ELOOP when it is nested too deeply to be removed. */
int tree_remove(int parent_fd, const char *name);
