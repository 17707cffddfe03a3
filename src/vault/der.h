/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * DER, written from the end to the beginning: what is inside is there before its length must be known.
 *
 *     struct der d = der_in(buffer, sizeof buffer);
 *     size_t mark = der_mark(&d);
 *     der_put(&d, bytes, n);
 *     der_wrap(&d, mark, 0x30);
 *     ... d.at .. end of the buffer, unless d.full
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct der {
        uint8_t *start, *at, *end;
        bool full;
};

static inline struct der der_in(uint8_t *buffer, size_t n) {
        return (struct der){ buffer, buffer + n, buffer + n, false };
}

static inline size_t der_mark(const struct der *d) {
        return (size_t)(d->end - d->at);
}

static inline void der_put(struct der *d, const void *p, size_t n) {
        if (d->full || n > (size_t)(d->at - d->start)) {
                d->full = true;
                return;
        }
        d->at -= n;
        memcpy(d->at, p, n);
}

static inline void der_byte(struct der *d, unsigned byte) {
        const uint8_t b = (uint8_t)byte;
        der_put(d, &b, 1);
}

/* Length and tag in front of everything since the mark; up to 65535 bytes. */
static inline void der_wrap(struct der *d, size_t mark, unsigned tag) {
        size_t n = der_mark(d) - mark;
        if (n > 65535)
                d->full = true;
        der_byte(d, n & 0xff);
        if (n > 255)
                der_byte(d, n >> 8 & 0xff);
        if (n > 127)
                der_byte(d, n > 255 ? 0x82 : 0x81);
        der_byte(d, tag);
}
