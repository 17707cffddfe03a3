/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Profiles for people: what there is, what one says, whether a file is one. */
#include "base/buf.h"
#include "base/err.h"

/* Name, title, programs and place of each. */
int profiles_list(bool json, struct buf *out, struct err *err);
/* One, as it would be used: the file itself with its place above it, or JSON. */
int profiles_show(const char *name, bool json, struct buf *out, struct err *err);
/* A name, or the path of a file. -ENOENT: there is none of that name. */
int profiles_check(const char *name, bool json, struct buf *out, struct err *err);
