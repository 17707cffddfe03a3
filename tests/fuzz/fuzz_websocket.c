/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: never longer than what is there, the same however much follows; and what is written can be unmasked. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        struct websocket_frame frame, again;
        size_t used = 0, used_again = 0;
        int r = websocket_read(in, 4096, &frame, &used);

        if (r == 1) {
                FUZZ_CHECK(used >= 2 && used <= size && frame.payload.n <= 4096 && frame.payload.n < used);
                FUZZ_CHECK(websocket_read(str_first(in, used), 4096, &again, &used_again) == 1 && used_again == used);
                FUZZ_CHECK(websocket_read(str_first(in, used - 1), 4096, &again, &used_again) == 0);
        }

        cleanup(buf_done) struct buf out = BUF(1 << 20);
        const unsigned char mask[4] = { 1, 2, 3, 4 };
        if (websocket_write(&out, WEBSOCKET_TEXT, in, mask) == 0) {
                FUZZ_CHECK(out.n >= size + 6);
                for (size_t i = 0; i < size; i++)
                        FUZZ_CHECK((unsigned char)(out.p[out.n - size + i] ^ mask[i % 4]) == data[i]);
                FUZZ_CHECK(websocket_read(buf_str(&out), 4096, &frame, &used) < 0); /* a server does not mask */
        }
        return 0;
}
