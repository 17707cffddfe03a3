/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A path of the host, opened in a sandbox that runs: mounted at the same path inside. Two short-lived children do it,
 * since nobody else may: one in a user and mount namespace of its own clones what is at the path on the host, the other
 * enters the sandbox's and attaches it there. No link is followed on either side: the mount is exactly the object and
 * the path that were judged.
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
 * -ENOTDIR, -EISDIR: inside, something of another kind is in the way. *ret_mount is the mount inside, wherever it is
 * moved to. */
int grant_mount(int mounts, const struct grant *grant, int *ret_mount, struct err *err);
/* Opens a file with these flags of open() and mounts nothing: the descriptor gives the sandbox this file, as it is
 * opened, and no way beyond it. It is not truncated. -ELOOP, -ESTALE as above. */
int grant_open(const struct grant *grant, int flags, int *ret, struct err *err);
/* Descriptors that were opened through it stay open. */
int grant_unmount(int mounts, int mount, const char *path, struct err *err);
