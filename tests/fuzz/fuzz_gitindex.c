/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the bytes, a path that is found is not empty and has no NUL in it. */
#include "fuzz.h"
#include "policy/git/gitindex.h"

static int check_path(struct str path, void *context) {
        (void)context;
        FUZZ_CHECK(path.n > 0 && str_find(path, '\0') < 0);
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        (void)gitindex_links(str_n(data, size), 20, check_path, NULL);
        (void)gitindex_links(str_n(data, size), 32, check_path, NULL);
        return 0;
}
