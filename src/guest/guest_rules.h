/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Rules that were approved for one guest (`bailey allow --guest`): remembered for its home as for a workspace. */
#include "guest/guest_place.h"

/* Texts are valid during the call. A negative return ends it. */
typedef int guest_on_rule(void *arg, bool deny, const char *pattern, const char *day);
int guest_rules(const struct guest *guest, guest_on_rule *on, void *arg, struct err *err);
