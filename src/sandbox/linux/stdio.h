/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Standard input from a file of the host. Its descriptor is on the host's mount: through it the mode, the times and the
 * attributes of the file could be changed, and where there is no Landlock it could be opened again for writing. So the
 * command gets the same file on a read-only mount, where the kernel refuses all of that (EROFS). It can seek, map and
 * open it again for reading as before. At the end its offset is copied to the caller's descriptor, so that the next
 * program continues there.
 */
#include "base/err.h"

#include <stdbool.h>

struct stdio {
        int tree;     /* the file as a mount of its own, before it is attached; -1: none */
        int original; /* the caller's descriptor; -1: nothing was changed */
        bool later;   /* the mount is closed once it is attached */
};
#define STDIO_NONE                                                                                                     \
        { -1, -1, false }

/* While the host's files are in sight. Input that is no file, or one without a name, stays as it is. */
void stdio_take(struct stdio *stdio);
/* When the sandbox's own are in place. */
int stdio_place(struct stdio *stdio, struct err *err);
/* When nothing of the sandbox lives any more. */
void stdio_carry_over(const struct stdio *stdio);
