/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What every other layer is laid over, as data. */
#include "policy/options.h"

/* One value of a row. Lists name the row again. */
struct preset_value {
        enum policy_row row;
        const char *text;
};

struct preset {
        const char *name;
        const char *help;
        const struct preset_value *values;
        size_t n;
};

/* default (strict, filtered), development (open network, may run with less), ci (strict, no network). */
extern const struct preset policy_presets[];
extern const size_t n_policy_presets;

/* NULL with "did you mean" in e. */
const struct preset *preset_find(struct str name, struct err *err);
