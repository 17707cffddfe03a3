/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part of Starlark that rule files are written in: calls with keyword arguments, one after the other, whose values
 * are strings, whole numbers, True, False, None and lists. Nothing is evaluated. Whatever computes something (names,
 * operators, positional arguments, load, def, for, if) is refused, since its effect would be a guess.
 *
 * The root is a list of maps: `key` of each is the name of the function, its members are the arguments.
 */
#include "conf/node.h"

int starlark_read(struct str text, struct str name, struct document **ret, struct err *err);
