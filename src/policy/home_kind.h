/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whose home the sandbox has: `filesystem.home`, `--home`. One of its own (for the workspace, or a named one that
 * several workspaces share), one that is forgotten at the end, or the user's real one with its secrets hidden by a
 * list.
 */
#include "policy/policy.h"

#define HOME_WORD_WORKSPACE "workspace"
#define HOME_WORD_NONE "none"
#define HOME_WORD_REAL "real"
/* Where the own home is inside when $HOME cannot be covered: there is no such directory, or it is part of the system.
 */
#define HOME_PLACE "/run/home"

enum home_kind { HOME_OF_WORKSPACE, HOME_NAMED, HOME_FORGOTTEN, HOME_REAL };

enum home_kind home_kind(const struct policy *policy);
static inline bool home_is_own(const struct policy *policy) {
        return home_kind(policy) != HOME_REAL;
}

/* 0 for one of the words and for a name: letters, digits, '-' and '_', at most 64. */
int home_check(struct str text, struct err *err);

/* Whether a home of its own can be shown at this path, given without links: not where the system is. */
bool home_can_cover(const char *path);
