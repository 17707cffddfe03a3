/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What was freed last comes back first, and is clean. */
static void reused_memory_is_zero(void **state) {
        (void)state;
        for (size_t n = 1; n <= 4096; n = n * 2 + 3) {
                char *p = alloc_zeroed(n);
                assert_non_null(p);
                memset(p, 0x5a, n);
                free(p);
                p = alloc_zeroed(n);
                assert_non_null(p);
                for (size_t i = 0; i < n; i++)
                        assert_int_equal(p[i], 0);
                free(p);
        }
}

static int step(void *argument) {
        (void)argument;
        void *p = alloc_zeroed(100);
        if (!p)
                return -ENOMEM;
        free(p);
        return 0;
}

static void says_when_there_is_none(void **state) {
        (void)state;
        assert_int_equal(alloc_fail_each(step, NULL), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reused_memory_is_zero),
                cmocka_unit_test(says_when_there_is_none),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
