/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The processes below one, found by asking each for its children. A process that left its parents is not among them. */
#include <stddef.h>
#include <sys/types.h>

enum { TREE_MAX = 4096 };

typedef size_t tree_children(pid_t pid, pid_t *ret, size_t most);

/* Parents before children, the root first; how many, at most TREE_MAX. */
size_t tree_list(pid_t root, tree_children *children, pid_t ret[static TREE_MAX]);
/* Sends the signal to all of them, again until no new one appears, at most `rounds` times. Parents first: a stopped
 * parent makes no more children. How many were found. */
size_t tree_signal(pid_t root, tree_children *children, int signal_number, unsigned rounds);
