/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Help for people, rendered from the verb and option tables. */
#include "base/buf.h"
#include "cli/verb.h"

#include <stdio.h>

/* Each returns EXIT_OK. */
int help_overview(FILE *out);
int help_verb(const struct verb *parent, const struct verb *verb, FILE *out);

/* "-o, --option METAVAR" as it is typed. */
int help_option_label(struct buf *ret, const struct option *o);
/* The help line with what the row knows besides: choices, default, variable. */
int help_option_text(struct buf *ret, const struct option *o);
