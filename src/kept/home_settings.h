/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The user's settings of policy/settings_filter.h, seeded into the sandbox's own home. */
#include "kept/home.h"

/* Those that are new or have changed. What cannot be read or laid is said, and left out. */
void home_settings_seed(struct home *home, const struct policy *policy);
