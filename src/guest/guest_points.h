/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Places in a guest's home at which something of the host's is mounted. */
#include "guest/guest_place.h"

/* Makes a directory (or an empty file) at this path below the home, and the directories on the way. What is made
 * belongs to the guest, and the host user may use it; what the guest closed is no obstacle. Links are not followed. */
int guest_point_make(const struct guest *guest, const char *path, bool directory, struct err *err);
