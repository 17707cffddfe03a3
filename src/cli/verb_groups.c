/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include <assert.h>

const char *const verb_group_titles[] = {
        [GROUP_RUN] = "Run programs",
        [GROUP_POLICY] = "Decide and explain",
        [GROUP_WATCH] = "Watch and answer",
        [GROUP_EGRESS] = "Gateway alone",
        [GROUP_HELP] = "This machine, this program",
};
static_assert(sizeof verb_group_titles / sizeof verb_group_titles[0] == VERB_GROUPS, "one title per group");
