/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Options of the policy that are kept with a guest. They are read again at each start, by a supervisor that stands in
 * the root directory: a path is kept as what it meant where it was typed.
 */
#include "conf/option.h"
#include "guest/guest_place.h"

/* The row of the policy with this flag; NULL: none. */
const struct option *guest_setting_row(const char *flag);
/* As it is kept. Heap text in *ret. */
int guest_setting_text(const struct option *row, const char *text, char **ret, struct err *err);
int guest_setting_keep(struct guests *guests, const char *id, const struct option *row, const char *text,
                       struct err *err);
/* Whether a policy can be made of them: what is wrong is told by the command that brings it, not by a later start. */
int guest_settings_check(const struct guests *guests, const struct option_values *values, struct err *err);
