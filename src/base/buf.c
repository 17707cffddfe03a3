/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void buf_done(struct buf *b) {
        free(b->p);
        *b = BUF(b->max);
}

void buf_clear(struct buf *b) {
        b->n = 0;
}

/* One byte beyond the maximum is always allowed in the allocation, for buf_text()'s NUL. */
static int grow(struct buf *b, size_t wanted) {
        size_t cap = b->cap ? b->cap : 64, limit = b->max < SIZE_MAX ? b->max + 1 : SIZE_MAX;
        while (cap < wanted)
                cap = cap > SIZE_MAX / 2 ? wanted : cap * 2;
        if (cap > limit)
                cap = limit;
        char *p = realloc(b->p, cap);
        if (!p)
                return -ENOMEM;
        b->p = p;
        b->cap = cap;
        return 0;
}

int buf_reserve(struct buf *b, size_t n) {
        if (n > b->max - b->n)
                return -EMSGSIZE;
        if (b->n + n == SIZE_MAX)
                return -ENOMEM;
        return b->n + n + 1 > b->cap ? grow(b, b->n + n + 1) : 0;
}

int buf_add(struct buf *b, const char *c_string) {
        return buf_append(b, str_of(c_string));
}

int buf_add_char(struct buf *b, char c) {
        return buf_append(b, str_n(&c, 1));
}

int buf_vprintf(struct buf *b, const char *format, va_list args) {
        va_list again;
        va_copy(again, args);
        int n = vsnprintf(NULL, 0, format, again);
        va_end(again);
        if (n < 0)
                return -EINVAL;
        int r = buf_reserve(b, (size_t)n);
        if (r < 0)
                return r;
        vsnprintf(b->p + b->n, (size_t)n + 1, format, args);
        b->n += (size_t)n;
        return 0;
}

int buf_printf(struct buf *b, const char *format, ...) {
        va_list args;
        va_start(args, format);
        int r = buf_vprintf(b, format, args);
        va_end(args);
        return r;
}

void buf_consume(struct buf *b, size_t n) {
        if (n >= b->n) {
                b->n = 0;
                return;
        }
        memmove(b->p, b->p + n, b->n - n);
        b->n -= n;
}

const char *buf_text(struct buf *b) {
        if (!b->p)
                return "";
        if (buf_reserve(b, 0) < 0)
                return NULL;
        b->p[b->n] = '\0';
        return b->p;
}
