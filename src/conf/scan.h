/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What readers of text formats by hand have in common (conf/jsonc.c, conf/toml.c, conf/starlark.c): a place in a text,
 * nodes and errors with line and column, and strings with escapes. Bytes after the end read as 0, and a 0 in the text
 * is refused before anything else, so that a reader may look ahead without asking whether something is there.
 */
#include "base/buf.h"
#include "conf/node.h"

struct scan {
        struct str text;
        size_t at;
        uint32_t line, column; /* from 1; columns in characters, as editors count */
        unsigned depth;
        struct document *document;
        struct err *err;
};

/* Valid UTF-8 without 0, and not too long. Then s->document is new. A byte order mark is skipped. */
int scan_open(struct scan *scan, struct str text, struct str name, struct err *err);

char scan_peek(const struct scan *scan, size_t ahead);
bool scan_at_end(const struct scan *scan);
/* Passes over n bytes, counting lines. */
void scan_skip(struct scan *scan, size_t n);
/* Passes over the text if it stands here. */
bool scan_take(struct scan *scan, const char *text);

/* "name:line:column: ..." for where the scan is. */
int scan_error(struct scan *scan, const char *format, ...) ERR_PRINTF(2, 3);
/* "... here, not X" with what stands here. */
int scan_unexpected(struct scan *scan, const char *wanted);

/* A node that begins here, one level below the parent. NULL: an error is set. */
struct node *scan_node(struct scan *scan, struct node *parent, enum node_kind kind);

enum scan_escapes { SCAN_JSON, SCAN_TOML, SCAN_STARLARK };
/* A string in these quotes, on one line; the scan is at the opening quote. */
int scan_string(struct scan *scan, char quote, enum scan_escapes escapes, struct str *ret);
