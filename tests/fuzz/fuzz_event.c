/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a sender puts into a batch: what is decoded encodes to the same bytes, and becomes one audit line that
 * parses. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ipc/event.h"
#include "store/audit_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str batch = str_n(data, size);
        struct event ev;
        for (;;) {
                struct str before = batch;
                if (event_decode(&batch, &ev) <= 0)
                        return 0;
                cleanup(buf_done) struct buf again = BUF(EVENT_BATCH_MAX), line = BUF(AUDIT_LINE_MAX);
                FUZZ_CHECK(event_encode(&again, &ev) == 0);
                FUZZ_CHECK(again.n == before.n - batch.n && memcmp(again.p, before.p, again.n) == 0);

                struct audit_head head = { .run_id = "r", .sandbox = "s", .seq = ev.connection };
                struct audit_record record;
                memset(head.prev, '0', sizeof head.prev - 1);
                FUZZ_CHECK(audit_line_format(&line, &head, &ev, NULL) == 0);
                FUZZ_CHECK(str_find(buf_str(&line), '\n') < 0 && !str_has_nul(buf_str(&line)));
                FUZZ_CHECK(audit_line_parse(buf_str(&line), &record, NULL) == 0);
                FUZZ_CHECK(record.seq == head.seq && (!record.has_allowed || record.allowed == ev.allowed));
        }
}
