/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals that are repeated wait longer and longer, up to a bound, and in a table that never grows. */
#include "gateway/load/pace.h"

#include "base/clock.h"

#include <stdio.h>

#include "../cmocka_all.h"

static struct host name_of(unsigned i) {
        char text[32];
        struct host host;

        snprintf(text, sizeof text, "n%u.example.com", i);
        assert_int_equal(host_parse(str_of(text), &host, NULL), 0);
        return host;
}

static void the_first_are_answered_at_once(void **state) {
        (void)state;
        struct pace pace = { 0 };
        struct host host = name_of(1);

        for (unsigned i = 0; i < PACE_FREE; i++) {
                assert_false(pace_is_slow(&pace, &host, 1));
                assert_int_equal(pace_delay(&pace, &host, 1), 0);
        }
        assert_true(pace_is_slow(&pace, &host, 1));
        assert_int_equal(pace_delay(&pace, &host, 1), PACE_FIRST_NS);
}

static void the_delay_grows_and_is_bounded(void **state) {
        (void)state;
        struct pace pace = { 0 };
        struct host host = name_of(1);
        uint64_t before = 0, delay = 0;

        for (unsigned i = 0; i < 100000; i++) {
                delay = pace_delay(&pace, &host, 1 + i);
                assert_true(delay >= before && delay <= PACE_MOST_NS);
                before = delay;
        }
        assert_int_equal(delay, PACE_MOST_NS);
        struct host other = name_of(2);
        assert_int_equal(pace_delay(&pace, &other, 100001), 0);
}

static void a_pause_forgives(void **state) {
        (void)state;
        struct pace pace = { 0 };
        struct host host = name_of(1);

        for (unsigned i = 0; i < 500; i++)
                (void)pace_delay(&pace, &host, 1);
        assert_false(pace_is_slow(&pace, &host, 2 + PACE_FORGET_NS));
        assert_int_equal(pace_delay(&pace, &host, 2 + PACE_FORGET_NS), 0);
}

static void many_hosts_make_room_for_each_other(void **state) {
        (void)state;
        struct pace pace = { 0 };

        for (unsigned i = 0; i < 10 * PACE_HOSTS; i++) {
                struct host host = name_of(i);
                assert_int_equal(pace_delay(&pace, &host, 1 + i), 0);
        }
}

static void so_many_wait_and_no_more(void **state) {
        (void)state;
        struct pace pace = { 0 };
        struct host host = name_of(1);

        for (unsigned i = 0; i < 1000; i++)
                (void)pace_delay(&pace, &host, 1);
        pace.held = PACE_HELD_MAX;
        assert_int_equal(pace_delay(&pace, &host, 1), 0);
        assert_false(pace_is_slow(&pace, &host, 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_first_are_answered_at_once),
                cmocka_unit_test(the_delay_grows_and_is_bounded),
                cmocka_unit_test(a_pause_forgives),
                cmocka_unit_test(many_hosts_make_room_for_each_other),
                cmocka_unit_test(so_many_wait_and_no_more),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
