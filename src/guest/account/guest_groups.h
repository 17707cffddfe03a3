/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The groups of this machine, as a guest sees them: without the one of terminals. Programs that make a terminal, sshd
 * among them, give it to that group if there is one, and fail where it has no number inside. Without it they use the
 * user's own.
 */
#include "base/buf.h"
#include "guest/guest_place.h"

#define GUEST_GROUPS_FILE "group"

/* The text without the lines of the group `tty`. -ENOMEM or what the buffer says. */
int guest_groups_filter(struct str text, struct buf *ret);
/* Writes the file of the guest. *ret: its path, or NULL where this machine has no /etc/group to stand for. */
int guest_groups_write(const struct guest *guest, char **ret, struct err *err);
