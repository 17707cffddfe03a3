/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * YAML, as much of it as a policy needs: mappings, lists, scalars. Anchors, aliases, tags, directives, merge keys and
 * several documents in one file are refused: each makes a file say something else than it seems to.
 */
#include "conf/node.h"

/* Errors: "name:line:column: what, why". */
int yaml_read(struct str text, struct str name, struct document **ret, struct err *err);
