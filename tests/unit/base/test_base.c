/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "../cmocka_all.h"

static void splits(void **state) {
        (void)state;
        struct str rest = STR("a,,b"), part;
        assert_true(str_split(&rest, ',', &part) && str_is(part, "a"));
        assert_true(str_split(&rest, ',', &part) && str_is(part, ""));
        assert_true(str_split(&rest, ',', &part) && str_is(part, "b"));
        assert_false(str_split(&rest, ',', &part));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(splits) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
