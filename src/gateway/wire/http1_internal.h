/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Byte classes of HTTP/1 (RFC 9110 and 9112), for the parsers in http1*.c only. */
#include "gateway/wire/http1.h"

enum {
        CHAR_TOKEN = 1, /* methods and header names */
        CHAR_VALUE = 2, /* header values: tab, space, visible ASCII, bytes above 127 */
        CHAR_PATH = 4,  /* path of a request target */
        CHAR_QUERY = 8, /* query of a request target */
        CHAR_HEX = 16,
        CHAR_VISIBLE = 32, /* tab, space, visible ASCII */
};
extern const uint8_t http1_chars[256];

static inline bool http1_is(char c, unsigned class) {
        return (http1_chars[(uint8_t)c] & class) != 0;
}

/* The first byte at or after p that is not of the class, or end. */
static inline const char *http1_skip(const char *p, const char *end, unsigned class) {
        while (p < end && http1_is(*p, class))
                p++;
        return p;
}

/* One space-separated or comma-separated word of a header's value list; false at the end. */
bool http1_list_next(struct str *rest, struct str *ret_word);

/* Reads the first line into the message. Of an unfinished one `seen` bytes were looked at before. *ret_next is where
 * the header lines begin. */
typedef enum http1_result http1_first_line(void *message, struct str in, size_t seen, size_t *ret_next);
/* A whole head: first line, header lines, framing. The message was zeroed up to its table of headers. */
enum http1_result http1_head_parse(struct http1_progress *at, struct str in, size_t max, http1_first_line *first_line,
                                   void *message, struct http1_head *head);
/* The header lines that pass, copied in runs of whole lines. */
int http1_headers_write(struct buf *out, const struct http1_head *head, bool (*passes)(const struct http1_header *h));
/* Plain digits: what printf would do, at a tenth of its price. */
int http1_number_write(struct buf *out, uint64_t number);
/* "Content-Length: N" with its line end. */
int http1_length_write(struct buf *out, uint64_t length);
