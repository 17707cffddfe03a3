/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * QR codes (ISO/IEC 18004), as much as a link needs: bytes, versions 1 to 9, the lowest level of error correction,
 * which is right for a screen. Debian's library for it has no static archive, and `bailey` is static. Pure.
 */
#include "base/buf.h"

enum { QR_TEXT_MAX = 230, QR_SIZE_MAX = 53 };

struct qr {
        unsigned size;                                /* modules in a row */
        unsigned char dark[QR_SIZE_MAX][QR_SIZE_MAX]; /* [row][column]: 1 is dark */
};

/* -EMSGSIZE: longer than QR_TEXT_MAX. */
int qr_make(struct str text, struct qr *ret);
/* For a terminal, two rows in a line of half blocks, light around it. With colours it is right on any background. */
int qr_draw(const struct qr *qr, bool colours, struct buf *out);
