/* SPDX-License-Identifier: Apache-2.0 */
/* What is read as a line is the same line when it is written again, and takes no more bytes than there are. */
#include "base/cleanup.h"
#include "bridge/pktline.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str left = str_n(data, size);
        struct pktline line, again;

        while (pktline_read(left, &line) > 0) {
                FUZZ_CHECK(line.bytes >= 4 && line.bytes <= left.n);
                if (line.kind == PKTLINE_DATA) {
                        cleanup(buf_done) struct buf out = BUF(PKTLINE_MAX);
                        FUZZ_CHECK(pktline_write(&out, line.data) == 0);
                        FUZZ_CHECK(pktline_read(buf_str(&out), &again) == 1 && str_eq(again.data, line.data));
                }
                left = str_skip(left, line.bytes);
        }
        return 0;
}
