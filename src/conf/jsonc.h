/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON with comments and trailing commas, as editors and agents keep their settings, with the place of every value.
 * Everything else is strict: a key twice, a bare word, a number that is none, and what follows the value are refused.
 * A string's node has `quoted` set; null is NODE_NULL.
 */
#include "conf/node.h"

/* Errors: "name:line:column: what, why". */
int jsonc_read(struct str text, struct str name, struct document **ret, struct err *err);
