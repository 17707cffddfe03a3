/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What an engine was told to mount, and whether that is what it mounted. See container_seen.c. */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <sys/types.h>

struct container_sight {
        char *tree, *path; /* inside: the granted tree, and the mount in it, or the same */
        char *later;       /* the source, if it is missing and the engine makes it; NULL: the next two are known */
        dev_t device;
        ino_t number;
};
typedef VEC(struct container_sight) container_seen;

/* Before the engine is called. `source` is what shall be at `path`. */
int container_seen_note(container_seen *seen, const char *tree, const char *path, const char *source, struct err *err);
/* The same for a mount of the user's own, whose source may be missing. `source` has no link in it. */
int container_seen_note_own(container_seen *seen, struct str path, const char *source, struct err *err);
/* Before the command is told to go; proc is the directory of the container's first process in /proc. */
int container_seen_check(const container_seen *seen, int proc, struct err *err);
void container_seen_done(container_seen *seen);
