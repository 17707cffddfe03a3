/* SPDX-License-Identifier: Apache-2.0 */
/* A log that somebody edited: any line is refused, or its fields lie inside it and unescape. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "store/audit_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str line = str_n(data, size);
        struct audit_record r;
        struct err e = { 0 };
        if (audit_line_parse(line, &r, &e) < 0) {
                FUZZ_CHECK(e.text[0] != '\0');
                return 0;
        }
        const struct str texts[] = { r.ts, r.run_id, r.kind, r.domain, r.path, r.rule, r.detail, r.prev, r.swapped };
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                cleanup(buf_done) struct buf text = BUF(1 << 24);
                if (!texts[i].p)
                        continue;
                FUZZ_CHECK(texts[i].p > line.p && texts[i].p + texts[i].n < line.p + line.n);
                FUZZ_CHECK(audit_unescape(&text, texts[i]) == 0);
                FUZZ_CHECK(text.n <= texts[i].n);
        }
        return 0;
}
