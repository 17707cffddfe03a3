/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/git_answer.h"

#include "base/cleanup.h"
#include "bridge/pktline.h"

#include <errno.h>

enum { BAND_DATA = 1, BAND_PROGRESS = 2, REPORT_MAX = 2 << 20, BAND_PIECE = 16384 };

/* "ng REF REASON" for each: all or nothing, whichever of them was refused. */
static int write_report(struct buf *out, const struct receive_pack *head, struct str reason) {
        int r = pktline_write(out, STR("unpack ok\n"));

        for (size_t i = 0; r == 0 && i < head->updates.n; i++) {
                cleanup(buf_done) struct buf line = BUF(PKTLINE_DATA_MAX);

                r = buf_printf(&line, "ng %.*s %.*s\n", STR_FMT(head->updates.p[i].ref), STR_FMT(reason));
                if (r >= 0)
                        r = pktline_write(out, buf_str(&line));
        }

        if (r < 0)
                return r;

        return pktline_write_flush(out);
}

static int write_band(struct buf *out, char band, struct str bytes) {
        int r = 0;

        while (r == 0 && bytes.n > 0) {
                cleanup(buf_done) struct buf line = BUF(PKTLINE_DATA_MAX);
                struct str piece = str_first(bytes, BAND_PIECE);

                r = buf_add_char(&line, band);
                if (r >= 0)
                        r = buf_append(&line, piece);
                if (r >= 0)
                        r = pktline_write(out, buf_str(&line));
                bytes = str_skip(bytes, piece.n);
        }

        return r;
}

int git_answer_push(struct buf *out, const struct receive_pack *head, struct str reason, struct str help) {
        cleanup(buf_done) struct buf report = BUF(REPORT_MAX);
        int r;

        if (!head->report_status && !head->report_status_v2)
                return -EOPNOTSUPP;

        r = write_report(&report, head, reason);
        if (r < 0)
                return r;
        if (!head->side_band)
                return buf_append(out, buf_str(&report));

        if (help.n > 0)
                r = write_band(out, BAND_PROGRESS, help);
        else
                r = 0;
        if (r < 0)
                return r;

        r = write_band(out, BAND_DATA, buf_str(&report));
        if (r < 0)
                return r;

        return pktline_write_flush(out);
}

int git_answer_advertisement(struct buf *out, const char *service, bool http, struct str text) {
        cleanup(buf_done) struct buf line = BUF(PKTLINE_DATA_MAX);
        int r = 0;

        if (http) {
                r = buf_printf(&line, "# service=git-%s\n", service);
                if (r >= 0)
                        r = pktline_write(out, buf_str(&line));
                if (r >= 0)
                        r = pktline_write_flush(out);
                buf_clear(&line);
        }

        if (r >= 0)
                r = buf_printf(&line, "ERR %.*s", STR_FMT(text));
        if (r < 0)
                return r;

        return pktline_write(out, buf_str(&line));
}
