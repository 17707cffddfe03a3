/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Text from outside, made safe to show. Nothing untrusted reaches a terminal, a log or a file without one of these.
 */
#include "base/buf.h"

/* For a terminal or a text log: printable ASCII stays, valid UTF-8 letters stay, everything else (control bytes, escape
 * sequences, bidirectional and invisible characters, broken UTF-8) becomes \xNN or \u{N}; at most `max` bytes of input
 * are shown, the rest as "...(N more)". */
int escape_text(struct buf *out, struct str s, size_t max);
/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD; control, bidirectional and invisible
 * characters become \uNNNN. */
int escape_json(struct buf *out, struct str s);
/* One word for a POSIX shell, quoted only where it must be. Its bytes are unchanged, so what a person is to see goes
 * through escape_text() as well. */
int escape_shell(struct buf *out, struct str s);

/* Decodes one UTF-8 character; returns its length, or 0 when the bytes are not valid (overlong and surrogates are not).
 */
size_t utf8_decode(struct str s, uint32_t *ret_code_point);
