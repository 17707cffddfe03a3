/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stand-ins: text that looks like the secret to a client (the same beginning, length, separators and alphabet) and says
 * nothing about it.
 */
#include "base/err.h"
#include "base/str.h"

enum { FAKE_RANDOM_MIN = 8 }; /* letters and digits that must be drawn, or there is no stand-in */

/* real.n bytes into ret. `prefix` is the provider's, kept if the secret begins with it. -EINVAL when too little of the
 * secret could be replaced; the message never holds any of it. */
int fake_make(struct str real, struct str prefix, char *ret, struct err *e);
/* Whether text could stand for this secret without giving it away: neither it nor what follows its prefix is in it. */
bool fake_is_apart(struct str fake, struct str real, struct str prefix);
