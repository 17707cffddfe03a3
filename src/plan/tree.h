/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files of a sandbox: mount operations, Landlock rules, guards, working directory. */
#include "plan/build.h"

int plan_tree(struct plan *p, const struct plan_request *q, struct err *e);
