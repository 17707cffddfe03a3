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

static inline size_t der_mark(const struct der *der) {
        return (size_t)(der->end - der->at);
}

static inline void der_put(struct der *der, const void *p, size_t n) {
        if (der->full || n > (size_t)(der->at - der->start)) {
                der->full = true;
                return;
        }
        der->at -= n;
        memcpy(der->at, p, n);
}

static inline void der_byte(struct der *der, unsigned byte) {
        const uint8_t b = (uint8_t)byte;
        der_put(der, &b, 1);
}

/* Length and tag in front of everything since the mark; up to 65535 bytes. */
static inline void der_wrap(struct der *der, size_t mark, unsigned tag) {
        size_t n = der_mark(der) - mark;
        if (n > 65535)
                der->full = true;
        der_byte(der, n & 0xff);
        if (n > 255)
                der_byte(der, n >> 8 & 0xff);
        if (n > 127)
                der_byte(der, n > 255 ? 0x82 : 0x81);
        der_byte(der, tag);
}
