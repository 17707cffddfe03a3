/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Help for people, rendered from the verb and option tables. */
#include "cli/verb.h"

#include <stdio.h>

/* Each returns an exit code. */
int help_overview(FILE *out);
int help_verb(const struct verb *parent, const struct verb *verb, FILE *out);

/* Words of `text` from `column` on, broken at 80; `at` is where the caller's label ended. */
void help_wrap(FILE *out, const char *text, int at, int column);
