/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A growable byte buffer with a hard maximum from the start: an append that would exceed it is refused whole with
 * -EMSGSIZE, never truncated. After a failed append the buffer is as before. buf_text() terminates without counting the
 * NUL. What is appended must not lie inside the buffer itself.
 */
#include "base/str.h"

#include <stdarg.h>

struct buf {
        char *p;
        size_t n;   /* bytes in use */
        size_t cap; /* bytes allocated */
        size_t max; /* never more than this in use */
};

#define BUF(maximum) ((struct buf){ .max = (maximum) })

void buf_done(struct buf *buf);
/* Forgets the content, keeps the memory. */
void buf_clear(struct buf *buf);
/* Room for n more bytes at b->p + b->n; -EMSGSIZE or -ENOMEM. */
int buf_reserve(struct buf *buf, size_t n);
static inline int buf_append(struct buf *buf, struct str s) {
        bool fits = s.n <= buf->max - buf->n && s.n < buf->cap - buf->n;
        int r = fits ? 0 : buf_reserve(buf, s.n);
        if (r == 0 && s.n > 0) {
                memcpy(buf->p + buf->n, s.p, s.n);
                buf->n += s.n;
        }
        return r;
}
int buf_add(struct buf *buf, const char *c_string);
int buf_add_char(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *buf, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* Drops n bytes at the front. */
void buf_consume(struct buf *buf, size_t n);
/* The content as a C string, or NULL when out of memory. Owned by the buffer. */
const char *buf_text(struct buf *buf);
static inline struct str buf_str(const struct buf *buf) {
        return (struct str){ buf->p, buf->n };
}
