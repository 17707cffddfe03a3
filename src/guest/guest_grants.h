/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Directories of the host user's that a guest with an id of its own may use: by access lists. Not for GUEST_OWN.
 */
#include "guest/guest_place.h"

/* The guest's id may read (and write) the directory and what is in it, also what comes later. Only entries of the host
 * user's own are changed. */
int guest_grant_give(const struct guest *guest, const char *path, bool write, struct err *err);
/* The same for what was granted before. The path may lead to something else by now: a file with a second name, which
 * may lie where nothing was granted, is left out. */
int guest_grant_give_again(const struct guest *guest, const char *path, bool write, struct err *err);
/* It may not any more, lists are as they were before, and what the guest made there belongs to the host user. A
 * directory that is gone, or is another user's by now, holds nothing up. */
int guest_grant_take(const struct guest *guest, const char *path, struct err *err);
/* What the guest made there belongs to the host user; the guest may use it as before. */
int guest_grant_fix(const struct guest *guest, const char *path, bool write, struct err *err);

#define GRANT_OBJECT_MAX 96
/* What is at the path, as text that nothing else there will have: a number that the file system may give again, and
 * when it was made. A negative errno: nothing, or a link on the way. */
int guest_grant_object(const char *path, char ret[static GRANT_OBJECT_MAX]);
/* Whether the path still leads somewhere, without links: 0 or a negative errno. */
int guest_grant_look(const char *path);
/* Whether nothing is there that could be used: an error of the machine (no memory, a failing disk) does not say so. */
bool grant_is_gone(int error);
