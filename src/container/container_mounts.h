/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What may be mounted into a container: files of this host, but not the host itself. Refused are the root, /proc, /sys,
 * /dev, /run, Unix sockets, the stores and sockets of engines, the home as a whole, Bailey's own state and settings,
 * and every directory that has one of these in it. Programs and settings of the system may be mounted read-only. Links
 * are followed first. Mounts that spread to this host are refused too.
 */
#include "base/buf.h"

/* What is mounted of this host. */
struct container_bind {
        char *source; /* where it leads; NULL: nothing of this host. Heap text */
        struct str destination;
};

/* value: of --volume, or (is_long) of --mount. kept: a path inside that stays Bailey's; NULL: none. 0: it may be; 1: it
 * may not, and *why has the rest of the sentence "your own mount X ..."; or -ENOMEM. ret: to be compared with what the
 * engine mounts; NULL: it is not, and then mounts are fine that could not be compared. */
int container_mount_judge(struct str value, bool is_long, const char *kept, struct container_bind *ret,
                          struct buf *why);
