/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a person can do about a verdict. Heap text, NULL when there is nothing to say (or no memory for it). */
#include "policy/judge/verdict.h"
#include "policy/paths/paths.h"

char *inspect_advice_host(const struct verdict *verdict, const struct authority *authority, const char *origin);
char *inspect_advice_path(enum path_access access, const char *path, bool read_only);
const char *inspect_advice_access(enum path_access access, bool by_rule);
