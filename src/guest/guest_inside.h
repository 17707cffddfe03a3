/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Work on a guest's files, whoever they belong to. A child makes a user namespace in which it is 0 (the host user) and
 * has every right over what belongs to the guest or to the host user, and nothing else. The work must reach files by
 * descriptors and follow no link: names in a home are the guest's.
 */
#include "guest/guest_place.h"

/* Returns 0 or a negative errno with the text in err. Runs in a child (for GUEST_OWN too): what it changes in memory is
 * gone afterwards. */
typedef int guest_work(void *arg, struct err *err);
int guest_inside(const struct guest *guest, guest_work *work, void *arg, struct err *err);
/* The same as the guest alone, with every right over its own files and none over the host user's: for other programs,
 * and for bytes that the guest made. Descriptors must be open before. */
int guest_inside_alone(const struct guest *guest, guest_work *work, void *arg, struct err *err);
