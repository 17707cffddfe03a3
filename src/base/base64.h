/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Base64 (RFC 4648), in the standard and the URL alphabet. Decoding is strict: it refuses input that two decoders could
 * read differently (stray bytes, missing or misplaced padding, unused bits that are set).
 */
#include "base/str.h"

enum base64_alphabet { BASE64_STANDARD, BASE64_URL };

/* Characters for n bytes, with padding. */
static inline size_t base64_length(size_t n) {
        return (n + 2) / 3 * 4;
}
/* Writes exactly base64_length(in.n) characters, padded, not terminated. */
void base64_encode(struct str in, enum base64_alphabet alphabet, char *out);
/* `out` has room for in.n / 4 * 3 bytes, and may be where `in` is. False when it is not the one padded standard form of
 * some bytes. */
bool base64_decode(struct str in, char *out, size_t *ret_n);

/*
 * A value inside longer base64 text looks different at each of three alignments. The characters that the value alone
 * decides, when `before` % 3 bytes stand before it: at most base64_length(value.n) of them are written to out. The
 * first and the last character may share bits with its neighbours and are then not among them.
 */
size_t base64_inner(struct str value, unsigned before, enum base64_alphabet alphabet, char *out);
