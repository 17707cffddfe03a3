/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON without a tree: every scalar is visited in place, with its pointer (RFC 6901), and a text can be written again
 * with some strings replaced and every other byte as it was. For files and messages that hold secrets: no copy of a
 * value is left behind, and what a program wrote stays as it wrote it.
 *
 * Strict: one value, no comments, no trailing commas, strings in UTF-8 without bare control characters. A key that is
 * there twice in one object is visited twice; a caller that wants one value must refuse a second (json_find() does).
 */
#include "base/buf.h"

enum { JSON_WALK_DEPTH = 64, JSON_POINTER_MAX = 4096 };

struct json_scalar {
        struct str pointer; /* "/a/0/b"; "" for the text itself */
        struct str key;     /* the last step of it, as written in the text, without quotes; "" in a list */
        struct str raw;     /* in the text, with quotes */
        bool is_string;
};

/* A negative result ends the walk and is returned. */
typedef int json_visit(void *arg, const struct json_scalar *scalar);
/* 0, what `visit` said, -EBADMSG: not JSON, -E2BIG: too deep, -ENOMEM. */
int json_walk(struct str text, json_visit *visit, void *arg);

/* The string itself, escapes undone. -EINVAL: it is no string; -EMSGSIZE, -ENOMEM. */
int json_scalar_text(const struct json_scalar *scalar, struct buf *out);
/* Text as a JSON string, with quotes. */
int json_quote(struct str text, struct buf *out);

/* The one string at this pointer, decoded. -ENOENT: there is none (also where it is null, a number or empty);
 * -ENOTUNIQ: several. */
int json_find(struct str text, struct str pointer, struct buf *out);

/* The replacement for one scalar: 1 with the text in *out (quoted, for a string), or 0 to keep it. */
typedef int json_replace(void *arg, const struct json_scalar *scalar, struct buf *out);
int json_edit(struct str text, json_replace *replace, void *arg, struct buf *out);

/* A step of the pattern that is a star stands for one of any name. */
bool json_pointer_matches(struct str pattern, struct str pointer);
