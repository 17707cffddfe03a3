/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Git's pkt-lines (gitprotocol-common): four hexadecimal digits that count themselves and what follows. "0000" ends a
 * list; "0001" and "0002" are marks of protocol 2. Strict: lower and upper case digits are read, lengths 3 and above
 * 65520 are none.
 */
#include "base/buf.h"

enum { PKTLINE_MAX = 65520, PKTLINE_DATA_MAX = 65516 };

enum pktline_kind { PKTLINE_DATA, PKTLINE_FLUSH, PKTLINE_DELIM, PKTLINE_END };

struct pktline {
        enum pktline_kind kind;
        struct str data; /* of PKTLINE_DATA, in the bytes that were given */
        size_t bytes;    /* it takes */
};

/* The line at the front. 1: there is one; 0: more bytes are needed; -EBADMSG: there is none. */
int pktline_read(struct str bytes, struct pktline *ret);
/* Appends one line; text longer than a line holds is cut. 0 or the buffer's error. */
int pktline_write(struct buf *out, struct str data);
int pktline_write_flush(struct buf *out);
/* The data without one line end. */
struct str pktline_text(const struct pktline *line);
