/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers take connections: as many as have work for a processor each, and no more. */
#include "base/clock.h"
#include "gateway/load/balance.h"

#include "../cmocka_all.h"

enum { PASSED = 1000000 };

static unsigned wanted(unsigned in_use, unsigned most, unsigned percent) {
        return balance_wanted(in_use, most, (uint64_t)PASSED * percent / 100, PASSED, 1);
}

static void one_is_enough_while_it_has_time_left(void **state) {
        (void)state;
        assert_int_equal(wanted(1, 8, 0), 1);
        assert_int_equal(wanted(1, 8, 94), 1);
        assert_int_equal(wanted(1, 8, 95), 2);
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
                assert_int_equal(wanted(n, 64, 95 * n), n + 1);
                assert_int_equal(wanted(n, 64, 95 * n - 1), n);
        }
}

static void what_has_started_does_not_swing(void **state) {
        (void)state;
        for (unsigned n = 1; n < 64; n++) {
                unsigned more = wanted(n, 64, 95 * n);

                for (unsigned percent = 60 * n; percent < 95 * n; percent++)
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

static void a_burst_wakes_nobody(void **state) {
        (void)state;
        struct balance balance = { .in_use = 1, .since = 1000 * NS_PER_MS };

        for (unsigned i = 1; i <= 4; i++) { /* 80 ms */
                balance_settle(&balance, 2, false, (1000 + 20 * i) * NS_PER_MS);
                balance.since = (1000 + 20 * i) * NS_PER_MS;
                assert_int_equal(balance.in_use, 1);
        }
        balance_settle(&balance, 1, false, 1100 * NS_PER_MS);
        balance.since = 1100 * NS_PER_MS;
        balance_settle(&balance, 2, false, 1120 * NS_PER_MS);
        assert_int_equal(balance.in_use, 1);
}

static void a_load_that_lasts_wakes_another(void **state) {
        (void)state;
        struct balance balance = { .in_use = 1, .since = 1000 * NS_PER_MS };

        for (unsigned i = 1; i <= 5; i++) {
                assert_int_equal(balance.in_use, 1);
                balance_settle(&balance, 2, false, (1000 + 20 * i) * NS_PER_MS);
                balance.since = (1000 + 20 * i) * NS_PER_MS;
        }
        assert_int_equal(balance.in_use, 2);
        balance_settle(&balance, 3, false, 1120 * NS_PER_MS);
        assert_int_equal(balance.in_use, 2);
        balance_settle(&balance, 1, false, 1140 * NS_PER_MS);
        assert_int_equal(balance.in_use, 1);

        balance = (struct balance){ .in_use = 1, .since = 1000 * NS_PER_MS };
        balance_settle(&balance, 2, false, 1500 * NS_PER_MS); /* nobody came meanwhile, and it was busy all the time */
        assert_int_equal(balance.in_use, 2);
}

static void a_crowd_does_not_wait(void **state) {
        (void)state;
        struct balance balance = { .in_use = 1, .since = 1000 * NS_PER_MS };

        balance_settle(&balance, 2, true, 1001 * NS_PER_MS);
        assert_int_equal(balance.in_use, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_is_enough_while_it_has_time_left),
                cmocka_unit_test(there_are_never_more_than_the_most),
                cmocka_unit_test(each_further_one_needs_as_much_work),
                cmocka_unit_test(what_has_started_does_not_swing),
                cmocka_unit_test(it_goes_back_to_one),
                cmocka_unit_test(a_crowd_is_shared_although_it_rests),
                cmocka_unit_test(a_burst_wakes_nobody),
                cmocka_unit_test(a_load_that_lasts_wakes_another),
                cmocka_unit_test(a_crowd_does_not_wait),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
