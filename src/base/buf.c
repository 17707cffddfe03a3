/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void buf_done(struct buf *buf) {
        free(buf->p);
        *buf = BUF(buf->max);
}

void buf_clear(struct buf *buf) {
        buf->n = 0;
}

/* One byte beyond the maximum is always allowed in the allocation, for buf_text()'s NUL. */
static int buf_grow(struct buf *buf, size_t wanted) {
        size_t cap = buf->cap ? buf->cap : 64;
        size_t limit = buf->max < SIZE_MAX ? buf->max + 1 : SIZE_MAX;

        while (cap < wanted)
                cap = cap > SIZE_MAX / 2 ? wanted : cap * 2;

        if (cap > limit)
                cap = limit;

        char *p = realloc(buf->p, cap);
        if (!p)
                return -ENOMEM;

        buf->p = p;
        buf->cap = cap;

        return 0;
}

int buf_reserve(struct buf *buf, size_t n) {
        if (n > buf->max - buf->n)
                return -EMSGSIZE;
        if (buf->n + n == SIZE_MAX)
                return -ENOMEM;
        if (buf->n + n + 1 > buf->cap)
                return buf_grow(buf, buf->n + n + 1);

        return 0;
}

int buf_add(struct buf *buf, const char *c_string) {
        return buf_append(buf, str_of(c_string));
}

int buf_add_char(struct buf *buf, char c) {
        return buf_append(buf, str_n(&c, 1));
}

int buf_vprintf(struct buf *buf, const char *format, va_list args) {
        va_list again;

        va_copy(again, args);
        int n = vsnprintf(NULL, 0, format, again);
        va_end(again);

        if (n < 0)
                return -EINVAL;

        int r = buf_reserve(buf, (size_t)n);
        if (r < 0)
                return r;

        vsnprintf(buf->p + buf->n, (size_t)n + 1, format, args);
        buf->n += (size_t)n;

        return 0;
}

int buf_printf(struct buf *buf, const char *format, ...) {
        va_list args;
        va_start(args, format);
        int r = buf_vprintf(buf, format, args);
        va_end(args);
        return r;
}

void buf_consume(struct buf *buf, size_t n) {
        if (n >= buf->n) {
                buf->n = 0;
                return;
        }
        memmove(buf->p, buf->p + n, buf->n - n);
        buf->n -= n;
}

const char *buf_text(struct buf *buf) {
        if (!buf->p)
                return "";
        if (buf_reserve(buf, 0) < 0)
                return NULL;
        buf->p[buf->n] = '\0';
        return buf->p;
}
