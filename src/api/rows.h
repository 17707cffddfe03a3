/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Rows of what a verb printed with --json: a list of flat objects. */
#include "bailey/guest.h"
#include "base/str.h"

/* With a member: the list is that one of the object that was printed. -EBADMSG: it is no such list. -ENOMEM. */
int rows_parse(struct str text, struct str member, bailey_rows **ret);
