/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A page that a program inside would have opened in a person's browser: what becomes of it. */
#include "policy/policy.h"
#include "verbs/inspect/inspect.h"

int inspect_page_judge(const struct policy *policy, const char *text, struct inspect_verdict *ret, struct err *err);
