/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between recipe.c (what a recipe says) and recipe_find.c (where recipes are). */
#include "guest/recipe/recipe.h"

/* Letters, digits and dashes: a name is part of a path. */
bool recipe_name_is_good(struct str name);

/* Who installs tools inside. */
struct recipe_manager {
        const char *name;
        const char *fronts[3]; /* directories for PATH, NULL-terminated */
        const char *script;    /* for sh -c; the tool is its first word */
        const char *secluded;  /* NULL, or a directory of the home: see recipe_manager_secluded() */
};
const struct recipe_manager *recipe_manager_find(struct str name);
