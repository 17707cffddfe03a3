/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the courier: what is read is written again as the same bytes. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ipc/courier_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(buf_done) struct buf out = BUF(COURIER_MESSAGE_MAX);
        struct courier_message message;
        size_t used = 0;

        if (courier_read(str_n(data, size), &message, &used) != 1)
                return 0;
        FUZZ_CHECK(used <= size);
        FUZZ_CHECK(courier_write(&out, &message) == 0 && out.n == used && memcmp(out.p, data, used) == 0);
        return 0;
}
