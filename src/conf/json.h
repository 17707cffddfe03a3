/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reading JSON into the same tree as YAML, without places (the format is for programs); a key twice in one object is
 * refused. Writing is base/emit.h.
 */
#include "conf/node.h"

int json_read(struct str text, struct str name, struct document **ret, struct err *err);
