/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The user's settings of policy/paths/settings_filter.h, seeded into the sandbox's own home. */
#include "kept/home.h"

/* Those that are new or have changed. Files that cannot be read or laid are reported and left out. */
void home_settings_seed(struct home *home, const struct policy *policy);
