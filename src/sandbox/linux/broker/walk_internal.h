/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the ways of path_walk.c. */
#include "sandbox/linux/broker/path_walk.h"

/* The directory and the last name of a path that is plain; with WALK_NOFOLLOW also what is there. Paths that are not
 * plain, and all errors, are left to the other ways: -ELOOP. */
int walk_spelled(struct tracee *tracee, int dirfd, const char *path, enum walk_mode mode, struct place *place);
/* The place does not need the directory that is kept any more. */
void walk_let_go(struct place *place);
/* Fills in `dir_st`. */
bool walk_dir_on_proc(struct place *place);
