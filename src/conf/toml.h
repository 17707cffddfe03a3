/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TOML, as much of it as agents' settings use, into the same tree as the other formats: tables, arrays of tables,
 * dotted and quoted keys, strings of all four kinds, arrays, inline tables; numbers, dates and booleans are plain
 * scalars. A string's node has `quoted` set. A key or table that is there twice is refused, and so is a table with more
 * than TOML_KEYS_MAX keys.
 */
#include "conf/node.h"

enum { TOML_KEYS_MAX = 4096, TOML_KEY_PARTS_MAX = 16 };

/* Errors: "name:line:column: what, why". The root is a map, which is empty for an empty file. */
int toml_read(struct str text, struct str name, struct document **ret, struct err *err);
