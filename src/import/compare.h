/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What differs between two texts, line by line. */
#include "base/buf.h"

/* "-" before lines that only the first has, "+" before those of the second; nothing when they are the same. */
int import_compare(struct str before, struct str after, struct buf *out);
