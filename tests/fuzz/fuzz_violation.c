/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of macOS's system log: what is found is terminated, its operation is a word, and the same line gives the same.
 */
#include "fuzz.h"
#include "sandbox/darwin/violation.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct violation first, again;

        memset(&first, 0xaa, sizeof first);
        memset(&again, 0x55, sizeof again);
        enum violation_line kind = violation_parse(str_n(data, size), "bailey-x", &first);
        FUZZ_CHECK(kind == violation_parse(str_n(data, size), "bailey-x", &again));
        if (kind != VIOLATION_FOUND && kind != VIOLATION_NOISE)
                return 0;
        FUZZ_CHECK(memchr(first.process, 0, sizeof first.process) && memchr(first.target, 0, sizeof first.target));
        FUZZ_CHECK(memchr(first.operation, 0, sizeof first.operation));
        FUZZ_CHECK(strcmp(first.process, again.process) == 0 && strcmp(first.target, again.target) == 0);
        FUZZ_CHECK(first.process[0] && first.operation[0] && first.pid == again.pid);
        FUZZ_CHECK(!strchr(first.operation, ' '));
        return 0;
}
