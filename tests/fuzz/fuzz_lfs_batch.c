/* SPDX-License-Identifier: Apache-2.0 */
/* A batch that is read names one operation in its own spelling, and a ref by git's rules or none. */
#include "bridge/lfs_batch.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct lfs_batch b;

        if (lfs_batch_read(str_n(data, size), &b) < 0)
                return 0;
        FUZZ_CHECK(memmem(data, size, b.upload ? "\"upload\"" : "\"download\"", b.upload ? 8 : 10));
        FUZZ_CHECK(b.ref_n == 0 || git_ref_is_valid(str_n(b.ref, b.ref_n)));
        return 0;
}
