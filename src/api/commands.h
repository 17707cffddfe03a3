/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The commands: part of a policy as rules of the classifier. Here both sides meet that know neither of the other. */
#include "policy/policy.h"
#include "shell/classify.h"

/* -EINVAL names the rule whose examples do not hold. */
int commands_load(const struct policy *policy, struct sh_rules **ret, struct err *err);

/* Where a command will run, with links resolved: for sh_classify(). */
struct commands_place {
        char *directory, *home, *workspace;
        struct sh_setting setting;
};
/* What cannot be resolved stays unknown; NULL: the current directory, no workspace. */
void commands_find_place(const char *directory, const char *workspace, struct commands_place *ret);
void commands_place_done(struct commands_place *place);
