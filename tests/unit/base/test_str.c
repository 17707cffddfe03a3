/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

static const struct str nothing = { NULL, 0 };

static void splits(void **state) {
        (void)state;
        static const struct {
                const char *text;
                size_t n;
                const char *parts[4];
        } rows[] = {
                { "a,,b", 3, { "a", "", "b" } }, { "", 1, { "" } },        { ",", 2, { "", "" } }, { "a", 1, { "a" } },
                { "a,", 2, { "a", "" } },        { ",a", 2, { "", "a" } },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                struct str rest = str_of(rows[i].text), part;
                for (size_t j = 0; j < rows[i].n; j++) {
                        assert_true(str_split(&rest, ',', &part));
                        assert_true(str_is(part, rows[i].parts[j]));
                }
                assert_false(str_split(&rest, ',', &part));
        }
        struct str rest = nothing, part;
        assert_false(str_split(&rest, ',', &part));
}

static void compares(void **state) {
        (void)state;
        assert_true(str_eq(nothing, STR("")));
        assert_true(str_eq(STR("a\0b"), STR("a\0b")));
        assert_false(str_eq(STR("a\0b"), STR("a\0c")));
        assert_false(str_eq(STR("a"), STR("ab")));
        assert_true(str_eq_nocase(STR("AZaz09_"), STR("azAZ09_")));
        assert_false(str_eq_nocase(STR("@["), STR("`{"))); /* the neighbours of the letters */
        assert_false(str_eq_nocase(STR("\xc4"), STR("\xe4")));
        assert_true(str_starts(STR("abc"), STR("")));
        assert_true(str_starts(STR("abc"), STR("abc")));
        assert_false(str_starts(STR("ab"), STR("abc")));
        assert_true(str_ends(STR("abc"), STR("bc")));
        assert_false(str_ends(STR("bc"), STR("abc")));
        assert_true(str_ends(nothing, nothing));
}

static void finds(void **state) {
        (void)state;
        assert_int_equal(str_find(STR("abcabc"), 'b'), 1);
        assert_int_equal(str_rfind(STR("abcabc"), 'b'), 4);
        assert_int_equal(str_find(STR("abc"), 'x'), -1);
        assert_int_equal(str_find(nothing, 'x'), -1);
        assert_int_equal(str_rfind(nothing, 'x'), -1);
        assert_true(str_has_nul(STR("a\0")));
        assert_false(str_has_nul(STR("a")));
}

static void cuts(void **state) {
        (void)state;
        assert_true(str_is(str_trim(STR(" \t a b\t ")), "a b"));
        assert_true(str_is(str_trim(STR(" \t ")), ""));
        assert_true(str_is(str_trim(STR("\na\n")), "\na\n")); /* only spaces and tabs */
        assert_true(str_is(str_skip(STR("abc"), 2), "c"));
        assert_true(str_is(str_skip(STR("abc"), 9), ""));
        assert_true(str_is(str_first(STR("abc"), 2), "ab"));
        assert_true(str_is(str_first(STR("abc"), 9), "abc"));
        assert_int_equal(str_skip(nothing, 3).n, 0);
        assert_null(str_skip(nothing, 3).p);
        assert_int_equal(str_trim(nothing).n, 0);
}

static void reads_numbers(void **state) {
        (void)state;
        static const struct {
                const char *text;
                uint64_t max, value;
                bool good;
        } rows[] = {
                { "0", 10, 0, true },
                { "10", 10, 10, true },
                { "11", 10, 0, false },
                { "007", 10, 7, true },
                { "", 10, 0, false },
                { "+1", 10, 0, false },
                { "-1", 10, 0, false },
                { " 1", 10, 0, false },
                { "1 ", 10, 0, false },
                { "0x1", 10, 0, false },
                { "18446744073709551615", UINT64_MAX, UINT64_MAX, true },
                { "18446744073709551616", UINT64_MAX, 0, false },
                { "99999999999999999999", UINT64_MAX, 0, false },
                { "000000000000000000000000001", UINT64_MAX, 1, true },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                uint64_t value = 4711;
                assert_int_equal(str_to_u64(str_of(rows[i].text), rows[i].max, &value), rows[i].good);
                assert_true(value == (rows[i].good ? rows[i].value : 4711));
        }
}

static void knows_hexadecimal_digits(void **state) {
        (void)state;
        for (int c = -128; c < 128; c++) {
                const char *lower = "0123456789abcdef", *upper = "0123456789ABCDEF";
                const char *at = c > 0 ? strchr(lower, c) : NULL;
                const char *also = c > 0 ? strchr(upper, c) : NULL;
                assert_int_equal(ascii_hex((char)c), at ? at - lower : also ? also - upper : -1);
        }
}

static void copies(void **state) {
        (void)state;
        cleanup(free_ptr) char *copy = str_dup(STR("text"));
        cleanup(free_ptr) char *empty = str_dup(nothing);
        cleanup(free_ptr) char *made = str_format("%s-%d", "x", 7);
        assert_string_equal(copy, "text");
        assert_string_equal(empty, "");
        assert_string_equal(made, "x-7");
        errno = 0;
        assert_null(str_dup(STR("a\0b")));
        assert_int_equal(errno, EINVAL);
        alloc_fail_at(1);
        assert_null(str_dup(STR("x")));
        alloc_fail_at(1);
        assert_null(str_format("%d", 1));
        alloc_fail_at(0);
}

static void measures_distance(void **state) {
        (void)state;
        static const struct {
                const char *a, *b;
                unsigned limit, distance;
        } rows[] = {
                { "", "", 3, 0 },           { "allow", "allow", 3, 0 },     { "alow", "allow", 3, 1 },
                { "alolw", "allow", 3, 2 }, { "kitten", "sitting", 3, 3 },  { "kitten", "sitting", 2, 3 },
                { "Allow", "aLLOW", 3, 0 }, { "network", "filesys", 2, 3 }, { "a", "abcdefgh", 3, 4 },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                assert_int_equal(str_distance(str_of(rows[i].a), str_of(rows[i].b), rows[i].limit), rows[i].distance);
                assert_int_equal(str_distance(str_of(rows[i].b), str_of(rows[i].a), rows[i].limit), rows[i].distance);
        }
        char long_text[65];
        memset(long_text, 'a', sizeof long_text);
        assert_int_equal(str_distance(str_n(long_text, 65), str_n(long_text, 65), 2), 3); /* too long to be a slip */
        assert_int_equal(str_distance(str_n(long_text, 64), str_n(long_text, 63), 2), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(splits),        cmocka_unit_test(compares),
                cmocka_unit_test(finds),         cmocka_unit_test(cuts),
                cmocka_unit_test(reads_numbers), cmocka_unit_test(knows_hexadecimal_digits),
                cmocka_unit_test(copies),        cmocka_unit_test(measures_distance),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
