/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

static void maximum_is_exact(void **state) {
        (void)state;
        static const size_t maxima[] = { 0, 1, 2, 63, 64, 65, 4095, 4096, 100000 };
        for (size_t i = 0; i < sizeof maxima / sizeof maxima[0]; i++) {
                cleanup(buf_done) struct buf b = BUF(maxima[i]);
                for (size_t n = 0; n < maxima[i]; n++)
                        assert_int_equal(buf_add_char(&b, (char)('a' + n % 26)), 0);
                assert_int_equal(b.n, maxima[i]);
                assert_int_equal(buf_add_char(&b, 'x'), -EMSGSIZE);
                assert_int_equal(b.n, maxima[i]);
                assert_int_equal(buf_append(&b, STR("")), 0);
                assert_int_equal(strlen(buf_text(&b)), maxima[i]);
                assert_true(b.cap <= maxima[i] + 1);
        }
}

static void failed_append_leaves_all_as_before(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(10);
        assert_int_equal(buf_add(&b, "12345678"), 0);
        assert_int_equal(buf_add(&b, "abc"), -EMSGSIZE);
        assert_int_equal(buf_printf(&b, "%d", 100), -EMSGSIZE);
        assert_int_equal(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);
        assert_string_equal(buf_text(&b), "12345678");
        assert_int_equal(buf_printf(&b, "%d", 99), 0);
        assert_string_equal(buf_text(&b), "1234567899");
}

static void failed_allocation_leaves_all_as_before(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(1000);
        assert_int_equal(buf_add(&b, "kept"), 0);
        char large[500];
        memset(large, 'x', sizeof large);
        alloc_fail_at(1);
        assert_int_equal(buf_append(&b, str_n(large, sizeof large)), -ENOMEM);
        alloc_fail_at(0);
        assert_string_equal(buf_text(&b), "kept");
        assert_int_equal(buf_append(&b, str_n(large, sizeof large)), 0);
        assert_int_equal(b.n, 504);
}

static void largest_maximum_does_not_wrap(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(SIZE_MAX);
        assert_int_equal(buf_add(&b, "text"), 0);
        assert_string_equal(buf_text(&b), "text");
        assert_int_equal(buf_reserve(&b, SIZE_MAX - 4), -ENOMEM);
        assert_int_equal(buf_reserve(&b, SIZE_MAX - 3), -EMSGSIZE);
        assert_string_equal(buf_text(&b), "text");
}

static void any_byte_is_kept(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(100);
        assert_int_equal(buf_append(&b, STR("a\0b\xff")), 0);
        assert_memory_equal(b.p, "a\0b\xff", 4);
        assert_true(str_eq(buf_str(&b), STR("a\0b\xff")));
}

static void consumes_from_the_front(void **state) {
        (void)state;
        static const struct {
                size_t n;
                const char *left;
        } rows[] = { { 0, "0123456789" }, { 1, "123456789" }, { 9, "9" }, { 10, "" }, { 11, "" }, { SIZE_MAX, "" } };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                cleanup(buf_done) struct buf b = BUF(10);
                assert_int_equal(buf_add(&b, "0123456789"), 0);
                buf_consume(&b, rows[i].n);
                assert_string_equal(buf_text(&b), rows[i].left);
        }
        struct buf untouched = BUF(10);
        buf_consume(&untouched, 0);
        buf_consume(&untouched, 5);
        assert_int_equal(untouched.n, 0);
}

static void empty_text_needs_no_memory(void **state) {
        (void)state;
        struct buf b = BUF(10);
        alloc_fail_at(1);
        assert_string_equal(buf_text(&b), "");
        alloc_fail_at(0);
        buf_done(&b);
        buf_done(&b);
        assert_int_equal(b.max, 10);
}

static void cleared_keeps_memory(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(100);
        assert_int_equal(buf_add(&b, "secretly long enough"), 0);
        const char *p = b.p;
        buf_clear(&b);
        assert_int_equal(buf_add(&b, "short"), 0);
        assert_ptr_equal(b.p, p);
        assert_string_equal(buf_text(&b), "short");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(maximum_is_exact),
                cmocka_unit_test(failed_append_leaves_all_as_before),
                cmocka_unit_test(failed_allocation_leaves_all_as_before),
                cmocka_unit_test(largest_maximum_does_not_wrap),
                cmocka_unit_test(any_byte_is_kept),
                cmocka_unit_test(consumes_from_the_front),
                cmocka_unit_test(empty_text_needs_no_memory),
                cmocka_unit_test(cleared_keeps_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
