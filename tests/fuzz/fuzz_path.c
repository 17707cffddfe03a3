/* SPDX-License-Identifier: Apache-2.0 */
/* A normalised path is absolute, has no dot parts or doubled slashes, and normalises to itself. */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "fuzz.h"

static void check_normal(const char *path) {
        FUZZ_CHECK(path[0] == '/');
        struct str rest = str_skip(str_of(path), 1), part;
        if (rest.n == 0)
                return;
        while (str_split(&rest, '/', &part))
                FUZZ_CHECK(part.n > 0 && !str_is(part, ".") && !str_is(part, ".."));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        cleanup(free_ptr) char *once = NULL;
        cleanup(free_ptr) char *twice = NULL;
        if (path_normalise(input, "/base/of/all", &once) < 0)
                return 0;
        check_normal(once);
        FUZZ_CHECK(path_normalise(str_of(once), NULL, &twice) == 0);
        FUZZ_CHECK(str_is(str_of(once), twice));
        FUZZ_CHECK(path_is_within(once, "/"));
        FUZZ_CHECK(path_is_within(once, once));
        return 0;
}
