/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files between the host and a guest: copies, and directories of the host that a guest is given. */
#include "guest/guest_place.h"

/* A path below the home: relative, or with "~/". No link is followed on the way, neither in nor out. */
struct guest_copy {
        const char *inside;  /* below the home */
        const char *outside; /* of the host */
        bool out;            /* from the guest to the host */
};
/* A file, or a directory with all that is in it. What is there already is not replaced: -EEXIST. Into the guest the
 * copy belongs to the guest; out of it to the host user, without set-id bits. */
int guest_copy(const struct guest *guest, const struct guest_copy *copy, struct err *err);

/* A directory or file of the host's, at the same path inside from the next start on. What holds keys, a whole home and
 * Bailey's own files cannot be granted. */
int guest_grant(struct guests *guests, struct guest *guest, const char *path, bool write, struct err *err);
int guest_revoke(struct guests *guests, struct guest *guest, const char *path, struct err *err);
/* Why this path can never be granted, or NULL. `path` and `home` without links. Pure. */
const char *grant_refusal(const char *path, const char *home, const char *state, const char *config);
