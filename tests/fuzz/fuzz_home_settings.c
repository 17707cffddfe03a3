/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of settings: anything in; what comes out passes the same filter unchanged in number of lines, and has no URL
 * with a password. */
#include "base/cleanup.h"
#include "policy/paths/settings_filter.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        for (size_t i = 0; i < n_home_settings; i++) {
                cleanup(buf_done) struct buf once = BUF(4 << 20), twice = BUF(4 << 20);
                int r = home_settings[i].filter(str_n(data, size), &once);
                FUZZ_CHECK(r == 0 || r == -12 || r == -90);
                if (r < 0)
                        continue;
                FUZZ_CHECK(home_settings[i].filter(buf_str(&once), &twice) == 0);
                FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
        }
        return 0;
}
