/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Snapshots and archives. Each operation says in the guest's row what it does before it does it, makes what is new
 * beside what is there, and changes places in one step; what it was killed at is finished or rolled back by the
 * functions that end in _mend. A home is removed only when it is safely in a file, or was replaced by a whole one.
 * The caller holds the guest.
 */
#include "guest/guest_place.h"

/* Of one that runs too: it must freeze meanwhile, which is the caller's affair. label: letters, digits, '-', '_',
 * '.'. */
int guest_snapshot(struct guests *guests, struct guest *guest, const char *label, uint64_t *ret_bytes, struct err *err);
int guest_snapshot_mend(struct guests *guests, struct guest *guest, struct err *err);
int guest_snapshot_remove(struct guests *guests, struct guest *guest, const char *label, struct err *err);
/* The snapshot `label` of the guest `from` (which may be the same one) becomes the home of this guest. */
int guest_restore(struct guests *guests, struct guest *guest, const struct guest *from, const char *label,
                  struct err *err);
int guest_restore_mend(struct guests *guests, struct guest *guest, struct err *err);

int guest_archive(struct guests *guests, struct guest *guest, uint64_t *ret_bytes, struct err *err);
int guest_archive_mend(struct guests *guests, struct guest *guest, struct err *err);
int guest_unarchive(struct guests *guests, struct guest *guest, struct err *err);
int guest_unarchive_mend(struct guests *guests, struct guest *guest, struct err *err);
/* NULL: it is there. */
const char *guest_archive_problem(const struct guest *guest);
