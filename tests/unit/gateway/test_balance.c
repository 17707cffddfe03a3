/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers take connections: as many as have work for a processor each, and no more. */
#include "gateway/balance.h"

#include "../cmocka_all.h"

enum { PASSED = 1000000 };

static unsigned wanted(unsigned in_use, unsigned most, unsigned percent) {
        return balance_wanted(in_use, most, (uint64_t)PASSED * percent / 100, PASSED, 1);
}

static void one_is_enough_while_it_has_time_left(void **state) {
        (void)state;
        assert_int_equal(wanted(1, 8, 0), 1);
        assert_int_equal(wanted(1, 8, 89), 1);
        assert_int_equal(wanted(1, 8, 90), 2);
}

static void there_are_never_more_than_the_most(void **state) {
        (void)state;
        assert_int_equal(wanted(1, 1, 100), 1);
        assert_int_equal(wanted(4, 4, 400), 4);
        assert_int_equal(balance_wanted(2, 2, 0, PASSED, UINT32_MAX), 2);
}

static void each_further_one_needs_as_much_work(void **state) {
        (void)state;
        for (unsigned n = 1; n < 64; n++) {
                assert_int_equal(wanted(n, 64, 90 * n), n + 1);
                assert_int_equal(wanted(n, 64, 90 * n - 1), n);
        }
}

static void what_has_started_does_not_swing(void **state) {
        (void)state;
        for (unsigned n = 1; n < 64; n++) {
                unsigned more = wanted(n, 64, 90 * n);

                for (unsigned percent = 60 * n; percent < 90 * n; percent++)
                        assert_int_equal(wanted(more, 64, percent), more);
        }
}

static void it_goes_back_to_one(void **state) {
        (void)state;
        unsigned n = 64;

        for (unsigned i = 0; i < 63; i++)
                n = wanted(n, 64, 1);
        assert_int_equal(n, 1);
        assert_int_equal(wanted(n, 64, 0), 1);
}

static void a_crowd_is_shared_although_it_rests(void **state) {
        (void)state;
        assert_int_equal(balance_wanted(1, 4, 0, PASSED, BALANCE_CROWD - 1), 1);
        assert_int_equal(balance_wanted(1, 4, 0, PASSED, BALANCE_CROWD), 2);
        assert_int_equal(balance_wanted(2, 4, 0, PASSED, BALANCE_CROWD), 2);
        assert_int_equal(balance_wanted(2, 4, 0, PASSED, 2 * BALANCE_CROWD), 3);
        assert_int_equal(balance_wanted(2, 4, 0, PASSED, BALANCE_CROWD - 1), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_is_enough_while_it_has_time_left),
                cmocka_unit_test(there_are_never_more_than_the_most),
                cmocka_unit_test(each_further_one_needs_as_much_work),
                cmocka_unit_test(what_has_started_does_not_swing),
                cmocka_unit_test(it_goes_back_to_one),
                cmocka_unit_test(a_crowd_is_shared_although_it_rests),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
