/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/pktline.h"

#include <errno.h>

enum { HEAD = 4 };

static int read_length(struct str bytes) {
        int n = 0;

        for (size_t i = 0; i < HEAD; i++) {
                int digit = ascii_hex(bytes.p[i]);
                if (digit < 0)
                        return -EBADMSG;
                n = n << 4 | digit;
        }

        return n;
}

int pktline_read(struct str bytes, struct pktline *ret) {
        static const enum pktline_kind marks[] = { PKTLINE_FLUSH, PKTLINE_DELIM, PKTLINE_END };

        for (size_t i = 0; i < bytes.n && i < HEAD; i++)
                if (ascii_hex(bytes.p[i]) < 0)
                        return -EBADMSG;

        if (bytes.n < HEAD)
                return 0;

        int n = read_length(bytes);
        if (n == 3 || n > PKTLINE_MAX)
                return -EBADMSG;

        if (n < 3) {
                *ret = (struct pktline){ .kind = marks[n], .bytes = HEAD };
                return 1;
        }

        if (bytes.n < (size_t)n)
                return 0;

        *ret = (struct pktline){ .kind = PKTLINE_DATA,
                                 .data = str_n(bytes.p + HEAD, (size_t)n - HEAD),
                                 .bytes = (size_t)n };
        return 1;
}

int pktline_write(struct buf *out, struct str data) {
        size_t before = out->n;
        int r;

        data = str_first(data, PKTLINE_DATA_MAX);
        r = buf_printf(out, "%04zx", data.n + HEAD);
        if (r >= 0)
                r = buf_append(out, data);
        if (r < 0)
                out->n = before;

        return r;
}

int pktline_write_flush(struct buf *out) {
        return buf_append(out, STR("0000"));
}

struct str pktline_text(const struct pktline *line) {
        struct str text = line->data;

        if (text.n > 0 && text.p[text.n - 1] == '\n')
                text.n--;
        return text;
}
