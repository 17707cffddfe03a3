/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A guest's home: made, opened to the host user, closed to everybody else, and removed. One way: the host user reads
 * and writes what is in it by access lists, which new files inherit; nothing gives the guest a way out of it.
 */
#include "guest/guest_place.h"

/* The directory NAME beside the others of the guest: owned by the guest, 0700, with the lists. There already: it is put
 * in order, nothing below it is touched. */
int guest_home_make(const struct guest *guest, const char *name, struct err *err);
/* Everything below the home: the guest is the owner, the host user may read and write. What has more than one name, and
 * belongs to the host user, is left alone. */
int guest_home_fix(const struct guest *guest, const char *name, struct err *err);
/* What the host user made in the home belongs to the guest from now on. Modes and lists stay as they are. */
int guest_home_adopt(const struct guest *guest, const char *name, struct err *err);
/* The same for one entry of an open directory. In the process that guest_inside() runs. */
int guest_home_adopt_entry(const struct guest *guest, int directory, const char *name, struct err *err);
/* A directory below the home: what comes into it the host user may read and not write, until guest_home_fix(). By the
 * mask of an access list, everything else in a home looks as if its group may write it, and some programs refuse that.
 * Not for GUEST_OWN. */
int guest_home_seclude(const struct guest *guest, const char *path, struct err *err);
/* With all that is in it, whatever its mode. 0 when it is not there. */
int guest_home_remove(const struct guest *guest, const char *name, struct err *err);
/* NULL: it is as it should be; else what is wrong, in a text that says so. */
const char *guest_home_problem(const struct guest *guest);
