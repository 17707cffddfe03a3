/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Content codings (RFC 9110, 8.4) undone as the bytes come, so that what is inside can be searched. zlib, brotli and
 * zstd stay behind this header. Theory and limits in decode.c.
 *
 *     struct decoder *d;
 *     decoder_new(coding_of(value), &d);
 *     while ((n = decoder_run(d, &in, out, room)) > 0 || decoder_owes(d))
 *             pass on out[0, n)
 *     at the end of the body: decoder_is_whole(d)
 */
#include "base/str.h"

#include <stdbool.h>
#include <sys/types.h>

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_BROTLI, CODING_ZSTD, CODING_UNKNOWN, CODINGS };

/* Of a Content-Encoding. Several at once, and all that cannot be undone, are CODING_UNKNOWN; "" and identity are none.
 */
enum coding coding_of(struct str value);
/* One more Content-Encoding of the same head: two are CODING_UNKNOWN, and aws-chunked is about the upload. */
enum coding coding_add(enum coding found, struct str value);
/* Headers that are about the coded bytes and are untrue without the coding. */
bool coding_has_header(struct str name);

struct decoder;
/* 0, -ENOMEM, or -EINVAL for a coding that is none or unknown. */
int decoder_new(enum coding c, struct decoder **ret);
void decoder_free(struct decoder *decoder); /* accepts NULL */

/* Takes bytes off the front of *in and writes at most `room`. How many were written; 0 is no error, the next input will
 * bring more. -EBADMSG: these are no such bytes, or some follow the end; -E2BIG: a bomb; -ENOMEM. After an error only
 * to be freed. */
ssize_t decoder_run(struct decoder *decoder, struct str *in, char *out, size_t room);
/* The room was too small: it is to be run again, also without input. */
bool decoder_owes(const struct decoder *decoder);
/* Whether the body may end here. One without any byte may. */
bool decoder_is_whole(const struct decoder *decoder);
