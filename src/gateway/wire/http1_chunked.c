/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked bodies (RFC 9112 section 7.1). Bytes pass unchanged, so a body costs no copy; spans break only where
 * something is left out: extensions, trailers and, for bare output, the framing.
 *
 *     SIZE -> (EXTENSION) -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *     size 0: SIZE_LF -> TRAILER_START -> (TRAILER -> TRAILER_LF -> TRAILER_START ...) -> END_LF -> done
 */
#include "gateway/wire/http1_internal.h"

enum chunk_state {
        CHUNK_SIZE,
        CHUNK_EXTENSION,
        CHUNK_SIZE_LF,
        CHUNK_DATA,
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        CHUNK_TRAILER_START,
        CHUNK_TRAILER_NAME,
        CHUNK_TRAILER_VALUE,
        CHUNK_TRAILER_LF,
        CHUNK_END_LF,
        CHUNK_DONE,
};

static enum http1_result size_byte(struct http1_chunked *chunked, char byte) {
        if (++chunked->line_bytes > HTTP1_CHUNK_LINE_MAX)
                return HTTP1_BAD_CHUNK;

        if (http1_is(byte, CHAR_HEX)) {
                if (chunked->digits == 16 || chunked->left >> 59) /* beyond 2^63 nobody means it */
                        return HTTP1_BAD_CHUNK;

                chunked->left = chunked->left << 4 | (uint64_t)ascii_hex(byte);
                chunked->digits++;
                return HTTP1_OK;
        }

        if (chunked->digits == 0)
                return HTTP1_BAD_CHUNK;

        if (byte == ';')
                chunked->state = CHUNK_EXTENSION;
        else if (byte == '\r')
                chunked->state = CHUNK_SIZE_LF;
        else
                return HTTP1_BAD_CHUNK;

        return HTTP1_OK;
}

static enum http1_result extension_byte(struct http1_chunked *chunked, char byte) {
        if (++chunked->line_bytes > HTTP1_CHUNK_LINE_MAX)
                return HTTP1_BAD_CHUNK;
        if (byte == '\r')
                chunked->state = CHUNK_SIZE_LF;
        else if (!http1_is(byte, CHAR_VISIBLE))
                return HTTP1_BAD_CHUNK;
        return HTTP1_OK;
}

/* Trailers have the syntax of header lines and are left out: nothing that was judged may change after the body. */
static enum http1_result trailer_byte(struct http1_chunked *chunked, char byte) {
        if (++chunked->line_bytes > HTTP1_TRAILER_MAX)
                return HTTP1_TOO_LARGE;
        if (chunked->trailers && buf_add_char(chunked->trailers, byte) < 0)
                return HTTP1_TOO_LARGE;

        switch ((enum chunk_state)chunked->state) {
        case CHUNK_TRAILER_START:
                if (byte == '\r')
                        chunked->state = CHUNK_END_LF;
                else if (http1_is(byte, CHAR_TOKEN))
                        chunked->state = CHUNK_TRAILER_NAME;
                else
                        return HTTP1_BAD_CHUNK;
                return HTTP1_OK;
        case CHUNK_TRAILER_NAME:
                if (byte == ':')
                        chunked->state = CHUNK_TRAILER_VALUE;
                else if (!http1_is(byte, CHAR_TOKEN))
                        return HTTP1_BAD_CHUNK;
                return HTTP1_OK;
        case CHUNK_TRAILER_VALUE:
                if (byte == '\r')
                        chunked->state = CHUNK_TRAILER_LF;
                else if (!http1_is(byte, CHAR_VALUE))
                        return HTTP1_BAD_CHUNK;

                return HTTP1_OK;
        default: /* CHUNK_TRAILER_LF */
                chunked->state = CHUNK_TRAILER_START;
                return byte == '\n' ? HTTP1_OK : HTTP1_BAD_CHUNK;
        }
}

static enum http1_result framing_byte(struct http1_chunked *chunked, char byte) {
        switch ((enum chunk_state)chunked->state) {
        case CHUNK_SIZE:
                return size_byte(chunked, byte);
        case CHUNK_EXTENSION:
                return extension_byte(chunked, byte);
        case CHUNK_SIZE_LF:
                chunked->state = chunked->left > 0 ? CHUNK_DATA : CHUNK_TRAILER_START;
                if (__builtin_add_overflow(chunked->announced, chunked->left, &chunked->announced))
                        return HTTP1_BAD_CHUNK;
                chunked->line_bytes = 0;
                chunked->digits = 0;

                return byte == '\n' ? HTTP1_OK : HTTP1_BAD_CHUNK;
        case CHUNK_DATA_CR:
                chunked->state = CHUNK_DATA_LF;
                return byte == '\r' ? HTTP1_OK : HTTP1_BAD_CHUNK;
        case CHUNK_DATA_LF:
                chunked->state = CHUNK_SIZE;

                return byte == '\n' ? HTTP1_OK : HTTP1_BAD_CHUNK;
        case CHUNK_END_LF:
                chunked->state = CHUNK_DONE;
                chunked->done = true;
                return byte == '\n' ? HTTP1_OK : HTTP1_BAD_CHUNK;
        default:
                return trailer_byte(chunked, byte);
        }
}

/* Whether the byte just taken, which led from one state to another, belongs to what passes. */
static bool chunked_passes(const struct http1_chunked *chunked, enum chunk_state before) {
        if (chunked->bare)
                return false;
        if (before == CHUNK_SIZE)
                return chunked->state != CHUNK_EXTENSION;
        if (before == CHUNK_EXTENSION)
                return chunked->state == CHUNK_SIZE_LF; /* the CR that ends it */
        if (before == CHUNK_TRAILER_START)
                return chunked->state == CHUNK_END_LF;

        return before < CHUNK_TRAILER_NAME || before == CHUNK_END_LF;
}

enum http1_result http1_chunked_next(struct http1_chunked *chunked, struct str *in, struct str *ret_span) {
        struct str span = { in->p, 0 };

        while (in->n > 0 && !chunked->done) {
                enum chunk_state before = chunked->state;
                size_t taken = 1;
                bool keep = true;

                if (before == CHUNK_DATA) {
                        taken = in->n < chunked->left ? in->n : (size_t)chunked->left;
                        chunked->left -= taken;
                        chunked->state = chunked->left == 0 ? CHUNK_DATA_CR : CHUNK_DATA;
                } else {
                        enum http1_result r = framing_byte(chunked, in->p[0]);
                        if (r != HTTP1_OK)
                                return r;
                        keep = chunked_passes(chunked, before);
                }

                if (keep && span.n == 0)
                        span.p = in->p;

                span.n += keep ? taken : 0;
                *in = str_skip(*in, taken);
                if (!keep && span.n > 0)
                        break;
        }

        if (span.n == 0)
                return HTTP1_MORE;

        *ret_span = span;
        return HTTP1_OK;
}
