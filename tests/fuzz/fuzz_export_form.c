/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the audit as syslog and OTLP want it: one message on one line with bounded header fields, one JSON document
 * with as many records as there were. The first byte is the limit. */
#include "base/cleanup.h"
#include "conf/json.h"
#include "export/record_form.h"
#include "fuzz.h"

static const struct export_form form = { .host = "h", .pid = 1 };

static void check_syslog(struct str line, size_t max) {
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        unsigned blanks = 0;

        if (form_syslog(&form, line, max, &out) < 0)
                return;
        for (size_t i = 0; i < out.n && blanks < 6; i++) { /* the six fields before the structured data */
                FUZZ_CHECK(out.p[i] >= 0x20 && out.p[i] < 0x7f);
                blanks += out.p[i] == ' ';
        }
        FUZZ_CHECK(blanks == 6 && out.n > 20);
        FUZZ_CHECK(out.p[0] == '<');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(buf_done) struct buf out = BUF(4 << 20);
        cleanup(document_freep) struct document *document = NULL;
        size_t bad = 0;

        if (size < 1)
                return 0;
        struct str line = str_n(data + 1, size - 1);
        check_syslog(line, 0);
        check_syslog(line, (size_t)data[0] * 8);
        if (form_otlp(&form, &line, 1, &out, &bad) < 0)
                return 0;
        FUZZ_CHECK(bad <= 1);
        if (bad == 0)
                FUZZ_CHECK(json_read(buf_str(&out), STR("otlp"), &document, NULL) == 0);
        return 0;
}
