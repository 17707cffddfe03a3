/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the readers of Codex's settings and of what an administrator requires of them. */
#include "import/import_source.h"

/* Neither read nor written to. */
int codex_deny_place(struct import_source *source, const struct node *node, struct str path, struct err *err);
/* PATTERN = allow or deny. */
import_handler codex_domain;
/* A map with pattern, decision and justification. */
import_handler codex_prefix_rule;
