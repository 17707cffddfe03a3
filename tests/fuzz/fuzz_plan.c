/* SPDX-License-Identifier: Apache-2.0 */
/* Launch plans: whatever decodes must encode again, and print, without trouble. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "plan/codec.h"
#include "plan/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
        cleanup(plan_freep) struct plan *p = NULL;
        if (plan_decode(str_n(data, n), &p, NULL) < 0)
                return 0;
        cleanup(buf_done) struct buf bytes = BUF(PLAN_BYTES_MAX);
        cleanup(buf_done) struct buf text = BUF(64u << 20);
        cleanup(buf_done) struct buf json = BUF(64u << 20);
        FUZZ_CHECK(plan_encode(p, &bytes, NULL) == 0 && str_eq(buf_str(&bytes), str_n(data, n)));
        FUZZ_CHECK(plan_dump_text(p, &text) == 0 && plan_dump_json(p, NULL, &json) == 0);
        return 0;
}
