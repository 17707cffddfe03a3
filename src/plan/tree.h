/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files of a sandbox: mount operations, Landlock rules, guards, working directory. */
#include "plan/build.h"

int plan_tree(struct plan *p, const struct plan_request *q, struct err *e);
/* What a person is told about a grant for something that is not there. */
const char *plan_missing_note(struct plan *p, const struct plan_path *path);
