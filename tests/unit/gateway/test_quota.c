/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/quota.h"

#include "../cmocka_all.h"

#include "base/clock.h"

static void test_rate_by_two_clocks(void **state) {
        (void)state;
        struct gateway_start start;
        gateway_start_init(&start);
        start.connections_per_second = 3;
        struct quota *q = quota_new(&start);
        assert_non_null(q);
        const uint64_t second = NS_PER_SECOND;
        for (unsigned i = 0; i < 3; i++)
                assert_true(quota_enter(q, 5 * second));
        assert_false(quota_enter(q, 6 * second - 1));
        unsigned entered = 0;
        for (unsigned i = 0; i < 20; i++) /* one worker has seen the new second, the other has not */
                entered += quota_enter(q, i % 2 ? 6 * second - 1 : 6 * second);
        assert_int_equal(entered, 3);
        assert_true(quota_enter(q, 7 * second));
        quota_free(q);
}

static void test_open_at_once(void **state) {
        (void)state;
        struct gateway_start start;
        gateway_start_init(&start);
        start.connections = 2;
        struct quota *q = quota_new(&start);
        assert_non_null(q);
        assert_true(quota_enter(q, 0) && quota_enter(q, 0));
        assert_false(quota_enter(q, 0));
        quota_leave(q);
        assert_true(quota_enter(q, 0));
        quota_free(q);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rate_by_two_clocks),
                cmocka_unit_test(test_open_at_once),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
