/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/needles.h"

#include "base/cleanup.h"

#include <errno.h>

#include "../alloc_fail.h"
#include "../cmocka_all.h"

static struct needles *make(const char *const *texts, size_t n) {
        struct needle list[16];
        struct needles *needles = NULL;
        for (size_t i = 0; i < n; i++)
                list[i] = (struct needle){ str_of(texts[i]), (uint32_t)i };
        assert_int_equal(needles_new(list, n, &needles), 0);
        return needles;
}

/* "id@start-end" for each match, whatever the size of the pieces. */
static void expect(const struct needles *n, const char *text, const char *expected) {
        struct str in = str_of(text);
        for (size_t piece = 1; piece <= in.n; piece++) {
                char got[256] = "";
                struct needle_scan scan;
                assert_int_equal(needle_scan_init(&scan, n, true), 0);
                for (size_t at = 0; at < in.n; at += piece) {
                        struct str part = str_first(str_skip(in, at), piece);
                        struct needle_match m;
                        while (needle_scan_next(&scan, &part, &m)) {
                                size_t used = strlen(got);
                                snprintf(got + used, sizeof got - used, "%s%u@%u-%u", used ? " " : "", m.id,
                                         (unsigned)m.start, (unsigned)m.end);
                        }
                        assert_int_equal(part.n, 0);
                }
                assert_string_equal(got, expected);
                needle_scan_done(&scan);
        }
}

static void finds_what_is_there(void **state) {
        (void)state;
        static const char *const texts[] = { "he", "she", "his", "hers" };
        cleanup(needles_freep) struct needles *n = make(texts, 4);
        assert_int_equal(needles_longest(n), 4);
        expect(n, "ushers", "1@1-4 3@2-6");
        expect(n, "xyz", "");
        expect(n, "hhhe", "0@2-4");
        expect(n, "hishe", "2@0-3 1@2-5");
}

static void sees_through_percent_signs(void **state) {
        (void)state;
        static const char *const texts[] = { "sk-ab", "%41", "a%" };
        cleanup(needles_freep) struct needles *n = make(texts, 3);
        expect(n, "sk%2Dab", "0@0-7");
        expect(n, "%73%6b%2d%61%62", "0@0-15");
        expect(n, "sk%2dab.sk-ab", "0@0-7 0@8-13");
        expect(n, "sk%2sk-ab", "0@4-9");
        expect(n, "sk%sk%2Dab", "0@3-10");
        expect(n, "s%6", "");
        expect(n, "%41", "1@0-3");
        expect(n, "%2541", "1@0-5");
        expect(n, "%61%zz", "2@0-4");
        expect(n, "%61%%41", "2@0-4 1@4-7");
        expect(n, "sk-%61b%41", "0@0-7 1@7-10");
}

/* The same text, by a list with few beginnings (which is passed over in strides) and by one with many (byte by byte).
 */
static void few_beginnings_or_many(void **state) {
        (void)state;
        static const char *const texts[] = { "ghp_1", "sk-ab", "1x", "2x", "3x", "4x", "5x", "6x", "7x", "8x", "9x" };
        static const char *const cases[][2] = {
                { "................ghp_1................sk-ab", "0@16-21 1@37-42" },
                { "gggggghpghp_1sskk-absk-ab", "0@8-13 1@20-25" },
                { "g%68p_1................................%73k-ab", "0@0-7 1@39-46" },
                { "...g...s...%...g...s...ghp_1", "0@23-28" },
                { "ghp_", "" },
                { "...................................................................................................."
                  "..............................................ghp_1..........................................s......"
                  "."
                  "................................................................................................%"
                  "73k-ab",
                  "0@146-151 1@297-304" },
        };
        cleanup(needles_freep) struct needles *few = make(texts, 2), *many = make(texts, sizeof texts / sizeof *texts);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                expect(few, cases[i][0], cases[i][1]);
                expect(many, cases[i][0], cases[i][1]);
        }
}

static void knows_how_much_is_undecided(void **state) {
        (void)state;
        static const char *const texts[] = { "token" };
        static const struct {
                const char *text;
                size_t partial;
        } cases[] = { { "", 0 },       { "x", 0 },     { "t", 1 },    { "xtok", 3 },     { "xtokt", 1 },
                      { "token", 0 },  { "x%", 1 },    { "x%7", 2 },  { "x%74", 3 },     { "to%6Be", 6 },
                      { "to%6Bx", 0 }, { "to%zz", 0 }, { "to%6", 4 }, { "%74%6f%6", 8 }, { "%74x%", 1 } };
        cleanup(needles_freep) struct needles *n = make(texts, 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct needle_scan scan;
                struct needle_match m;
                struct str in = str_of(cases[i].text);
                assert_int_equal(needle_scan_init(&scan, n, true), 0);
                while (needle_scan_next(&scan, &in, &m))
                        ;
                assert_int_equal(needle_scan_partial(&scan), cases[i].partial);
                needle_scan_done(&scan);
        }
}

static void symbols_have_places(void **state) {
        (void)state;
        static const char *const texts[] = { "a-b" };
        cleanup(needles_freep) struct needles *n = make(texts, 1);
        struct needle_scan scan;
        struct needle_match m;
        struct str in = STR("..a%2db");
        assert_int_equal(needle_scan_init(&scan, n, true), 0);
        assert_true(needle_scan_next(&scan, &in, &m));
        static const struct needle_symbol expected[] = { { 2, 1 }, { 3, 3 }, { 6, 1 } };
        assert_int_equal(m.n, 3);
        for (size_t i = 0; i < 3; i++) {
                struct needle_symbol s = needle_scan_symbol(&scan, &m, i);
                assert_int_equal(s.at, expected[i].at);
                assert_int_equal(s.width, expected[i].width);
        }
        needle_scan_done(&scan);
}

static void bad_lists(void **state) {
        (void)state;
        struct needles *n = NULL;
        const struct needle empty = { STR(""), 1 };
        assert_int_equal(needles_new(&empty, 1, &n), -EINVAL);
        const struct needle endless = { { "x", (size_t)1 << 40 }, 1 };
        assert_int_equal(needles_new(&endless, 1, &n), -E2BIG);
        assert_null(n);
        assert_int_equal(needles_new(NULL, 0, &n), 0);
        expect(n, "anything %41", "");
        needles_free(n);
        needles_free(NULL);
}

static int build(void *argument) {
        (void)argument;
        const struct needle list[] = { { STR("one"), 1 }, { STR("two"), 2 } };
        struct needles *n = NULL;
        struct needle_scan scan = { 0 };
        int r = needles_new(list, 2, &n);
        if (r == 0)
                r = needle_scan_init(&scan, n, true);
        needle_scan_done(&scan);
        needles_free(n);
        return r;
}

static void out_of_memory(void **state) {
        (void)state;
        assert_true(alloc_fail_each(build, NULL) >= 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(finds_what_is_there),    cmocka_unit_test(sees_through_percent_signs),
                cmocka_unit_test(few_beginnings_or_many), cmocka_unit_test(knows_how_much_is_undecided),
                cmocka_unit_test(symbols_have_places),    cmocka_unit_test(bad_lists),
                cmocka_unit_test(out_of_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
