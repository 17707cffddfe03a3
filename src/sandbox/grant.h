/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A path of the host, opened in a sandbox that runs: mounted at the same path inside. Two short-lived children do it,
 * since nobody else may: one in a user and mount namespace of its own clones what is at the path on the host, the other
 * enters the sandbox's and attaches it there. No link is followed, on either side: what was judged is what is mounted,
 * and where it was judged to be.
 */
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct grant {
        const char *path; /* canonical */
        dev_t dev;        /* of what was judged */
        ino_t ino;
        bool directory, write;
        bool make; /* inside, what is missing on the way is made: in the sandbox's own home */
};

/* `mounts`: the sandbox's mount namespace. -ELOOP: there is a link on the way; -ESTALE: something else is there now;
 * -ENOTDIR, -EISDIR: inside, something of another kind is in the way. */
int grant_mount(int mounts, const struct grant *grant, struct err *err);
/* What was opened by it stays open to whoever opened it. */
int grant_unmount(int mounts, const char *path, struct err *err);
