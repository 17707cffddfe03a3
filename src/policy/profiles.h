/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ready-made layers, as data. A preset is what every other layer is laid over; a profile adds what one agent needs to
 * work.
 */
#include "policy/options.h"

/* One value of a row. Lists name the row again. */
struct preset_value {
        enum policy_row row;
        const char *text;
};

struct profile {
        const char *name;
        const char *help;
        const struct preset_value *values;
        size_t n;
};

/* default (strict, filtered), development (open network, may run with less), ci (strict, no network). */
extern const struct profile policy_presets[];
extern const size_t n_policy_presets;
/* claude, codex, gemini, opencode, aider. */
extern const struct profile policy_profiles[];
extern const size_t n_policy_profiles;

/* NULL with "did you mean" in e. */
const struct profile *preset_find(struct str name, struct err *e);
const struct profile *profile_find(struct str name, struct err *e);
