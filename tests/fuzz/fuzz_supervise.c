/* SPDX-License-Identifier: Apache-2.0 */
/* A job for the supervisor: what is decoded encodes to a block that decodes to the same. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ipc/supervise_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(supervise_request_done) struct supervise_request q = { 0 }, again = { 0 };
        cleanup(free_ptr) char *block = NULL, *second = NULL;
        if (supervise_decode(str_n(data, size), &q, NULL) < 0)
                return 0;
        FUZZ_CHECK(supervise_encode(&q, &block, NULL) == 0);
        FUZZ_CHECK(supervise_decode(str_of(block), &again, NULL) == 0);
        FUZZ_CHECK(supervise_encode(&again, &second, NULL) == 0 && strcmp(block, second) == 0);
        FUZZ_CHECK(again.argv.n == q.argv.n && again.config.n == q.config.n && again.call.n == q.call.n);
        return 0;
}
