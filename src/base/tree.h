/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whole directory trees, without following a link. */

/* Removes whatever has this name in the directory: a file, a link, or a directory with all that is in it (also one
 * whose owner closed it, however deeply nested). 0 when it is not there. After an error as much as possible is gone. */
int tree_remove(int parent_fd, const char *name);
