/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Help for people, rendered from the verb and option tables. */
#include "cli/verb.h"

#include <stdio.h>

/* Each returns an exit code. */
int help_overview(FILE *out);
int help_verb(const struct verb *parent, const struct verb *verb, FILE *out);
