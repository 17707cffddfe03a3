/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What $x and ${x...} become, where the text of the command says what x holds. */
#include "shell/judge_internal.h"

/* False: only the running shell knows. An array when all its items are meant: "$@", "${a[@]}". */
bool parameter_value(struct judge *judge, const struct sh_part *part, struct sh_value *ret);
