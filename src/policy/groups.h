/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names for sets of hosts that many people need: "@github" in an allow or deny list stands for the patterns of its row.
 * For package groups the mirrors in the user's own settings belong to it too (policy/paths/mirrors.h).
 */
#include "base/err.h"
#include "base/str.h"

/* Whose settings may name a mirror. */
enum mirror_kind { MIRROR_NONE, MIRROR_NPM, MIRROR_PIP, MIRROR_CARGO, MIRROR_APT, MIRROR_GO, MIRROR_KINDS };

struct group {
        const char *name; /* without the '@' */
        const char *help; /* what it is for */
        enum mirror_kind mirror;
        const char *const
            *patterns; /* NULL-terminated; "@name" stands for another group, whose patterns are all plain */
};

extern const struct group policy_groups[];
extern const size_t n_policy_groups;

static inline bool group_is_reference(struct str text) {
        return text.n > 0 && text.p[0] == '@';
}
/* "@name"; NULL with -ENOENT in e and "did you mean" when there is none. */
const struct group *group_find(struct str reference, struct err *err);
