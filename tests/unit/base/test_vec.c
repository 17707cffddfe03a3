/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"

static void grows_and_keeps(void **state) {
        (void)state;
        VEC(int) v = { 0 };
        for (int i = 0; i < 1000; i++)
                assert_int_equal(vec_push(&v, i * 3), 0);
        assert_int_equal(v.n, 1000);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(v.p[i], i * 3);
        vec_done(&v);
        assert_null(v.p);
        assert_int_equal(v.n + v.cap, 0);
        vec_done(&v);
}

static void failed_push_leaves_all_as_before(void **state) {
        (void)state;
        VEC(long) v = { 0 };
        for (int i = 0; i < 8; i++)
                assert_int_equal(vec_push(&v, i), 0);
        alloc_fail_at(1);
        assert_int_equal(vec_push(&v, 8), -ENOMEM);
        alloc_fail_at(0);
        assert_int_equal(v.n, 8);
        assert_int_equal(v.p[7], 7);
        assert_int_equal(vec_push(&v, 8), 0);
        vec_done(&v);
}

static void sizes_that_overflow_are_refused(void **state) {
        (void)state;
        VEC(long) v = { 0 };
        volatile size_t most = SIZE_MAX; /* the compiler would refuse it, too */
        assert_int_equal(vec_reserve(&v, most / 4), -ENOMEM);
        assert_int_equal(vec_reserve(&v, most), -ENOMEM);
        assert_null(v.p);
        assert_int_equal(vec_reserve(&v, 100), 0);
        assert_true(v.cap >= 100);
        vec_done(&v);
}

static int calls;
static int next_value(void) {
        return ++calls;
}

static void value_is_evaluated_once(void **state) {
        (void)state;
        VEC(int) v = { 0 };
        assert_int_equal(vec_push(&v, next_value()), 0);
        assert_int_equal(calls, 1);
        assert_int_equal(v.p ? v.p[0] : 0, 1);
        vec_done(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grows_and_keeps),
                cmocka_unit_test(failed_push_leaves_all_as_before),
                cmocka_unit_test(sizes_that_overflow_are_refused),
                cmocka_unit_test(value_is_evaluated_once),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
