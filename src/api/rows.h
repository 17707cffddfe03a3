/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Rows of what a verb printed with --json: a list of flat objects. */
#include "bailey/guest.h"
#include "base/str.h"

/* -EBADMSG: it is no such list. -ENOMEM. */
int rows_parse(struct str text, bailey_rows **ret);
