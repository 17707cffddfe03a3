/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files with several names. A file in the workspace may have a name elsewhere too: uv, pnpm, bun and conda share one
 * file between projects and their cache, and a link may lead to a start-up file or to another repository's hook.
 * Writing it here would change it there. So before such a file changes, the name in the workspace gets a copy of its
 * own, as with an overlay. The file under its other names stays unchanged.
 *
 * No copy is made if every name of the file is in a place that the sandbox may write: links that it made itself are
 * counted as they are made; for older ones the writable places are listed, once, when the first such file is written.
 */
#include "plan/plan.h"

#include <sys/stat.h>

struct shared;

int shared_new(const struct plan *plan, struct shared **ret);
void shared_free(struct shared *s);
void shared_freep(struct shared **s);

/* Whether the file may have a name that the sandbox cannot write to. */
bool shared_is_foreign(struct shared *shared, const struct stat *st);
/* The sandbox made another name of it: as it was before. */
void shared_linked(struct shared *shared, const struct stat *before);
/* A name of it goes. Costs nothing while there is no file that is known. */
bool shared_knows_any(const struct shared *shared);
void shared_unlinked(struct shared *shared, const struct stat *st);

/* Gives DIRECTORY/NAME, which is `object`, a copy of its own; `empty`: its content does not matter. *object is the copy
 * then. -EACCES when it cannot be done. */
int shared_part(int directory, const char *name, bool empty, int *object);
