/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files of a sandbox: mount operations, Landlock rules, guards, working directory. */
#include "plan/build.h"

int plan_tree(struct plan *plan, const struct plan_request *request, struct err *err);
/* The note about a grant for a path that does not exist. */
const char *plan_missing_note(struct plan *plan, const struct plan_path *path);
