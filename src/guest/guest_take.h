/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a guest made in a directory of the host user's, given to the host user. The guest's id owns it until then, and
 * the next guest may get the same id.
 */
#include "guest/guest_place.h"

/* Everything below the path, and what is there itself: what the guest's id owns belongs to the host user, who alone may
 * write it, without set-id bits and access lists. What anybody else owns stays as it is; no link is followed.
 * Directories of either that lie too deep come up to the top, under a new name. `granted`: the guest gets it again, and
 * is still named in the lists of files with several names. Not for GUEST_OWN. */
int guest_take(const struct guest *guest, const char *path, bool granted, struct err *err);
