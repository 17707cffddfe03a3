/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "../cmocka_all.h"

#include <sys/stat.h>
#include <time.h>

static const struct {
        const char *text;
        uint64_t ns;
        const char *shortest; /* NULL: not a duration */
} durations[] = {
        { "0", 0, "0s" },
        { "0ms", 0, "0s" },
        { "500ms", 500 * NS_PER_MS, "500ms" },
        { "1000ms", NS_PER_SECOND, "1s" },
        { "1500ms", 1500 * NS_PER_MS, "1500ms" },
        { "10", 10 * NS_PER_SECOND, "10s" },
        { "90s", 90 * NS_PER_SECOND, "90s" },
        { "120s", 120 * NS_PER_SECOND, "2m" },
        { "5m", 300 * NS_PER_SECOND, "5m" },
        { "2h", 7200 * NS_PER_SECOND, "2h" },
        { "24h", 86400 * NS_PER_SECOND, "1d" },
        { "213503d", 213503 * (86400 * NS_PER_SECOND), "213503d" },
        { "213504d", 0, NULL }, /* beyond 64 bits of nanoseconds */
        { "18446744073709551616", 0, NULL },
        { "", 0, NULL },
        { "s", 0, NULL },
        { "-1s", 0, NULL },
        { "1 s", 0, NULL },
        { "1.5s", 0, NULL },
        { "1S", 0, NULL },
        { "1w", 0, NULL },
        { "1sm", 0, NULL },
        { "1m30s", 0, NULL },
};

static void parses_durations(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
                uint64_t ns = 4711;
                bool good = clock_parse_duration(str_of(durations[i].text), &ns);
                assert_int_equal(good, durations[i].shortest != NULL);
                assert_true(ns == (good ? durations[i].ns : 4711));
                if (!good)
                        continue;
                char text[24];
                clock_duration_text(ns, text);
                assert_string_equal(text, durations[i].shortest);
        }
}

static void every_value_is_spelled_back(void **state) {
        (void)state;
        uint64_t ms = 1;
        for (int i = 0; i < 2000; i++, ms = (ms * 31 + 7) % 10000000000ULL) {
                char text[24];
                uint64_t back = 0;
                clock_duration_text(ms * NS_PER_MS, text);
                assert_true(clock_parse_duration(str_of(text), &back));
                assert_true(back == ms * NS_PER_MS);
        }
}

static void spells_times(void **state) {
        (void)state;
        static const struct {
                uint64_t us;
                const char *text;
        } rows[] = {
                { 0, "1970-01-01T00:00:00.000000Z" },
                { 1, "1970-01-01T00:00:00.000001Z" },
                { 951782400000000ULL, "2000-02-29T00:00:00.000000Z" },
                { 1794711152123456ULL, "2026-11-15T02:52:32.123456Z" },
                { 253402300799999999ULL, "9999-12-31T23:59:59.999999Z" },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                char text[CLOCK_TEXT_MAX];
                clock_text(rows[i].us, text);
                assert_string_equal(text, rows[i].text);
        }
        char text[CLOCK_TEXT_MAX];
        clock_text(UINT64_MAX, text); /* no such time; still terminated */
        assert_true(strlen(text) < CLOCK_TEXT_MAX);
}

/* Every day of 800 years, from the epoch on: the library's own calendar is the measure. */
static void knows_every_date(void **state) {
        (void)state;
        for (uint64_t day = 0; day < 800 * 365; day++) {
                char text[CLOCK_TEXT_MAX], expected[CLOCK_TEXT_MAX];
                time_t seconds = (time_t)(day * 86400 + day % 86400);
                struct tm parts;
                assert_non_null(gmtime_r(&seconds, &parts));
                assert_int_equal(strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000042Z", &parts), 27);
                clock_text((uint64_t)seconds * 1000000 + 42, text);
                assert_string_equal(text, expected);
        }
}

static void goes_forward(void **state) {
        (void)state;
        uint64_t before = clock_ns(), wall = clock_wall_us();
        for (int i = 0; i < 1000; i++) {
                uint64_t now = clock_ns();
                assert_true(now >= before);
                before = now;
        }
        assert_true(wall > 1700000000ULL * 1000000);
        assert_true(clock_wall_us() - wall < 60 * 1000000ULL);
}

static void reads_times_back(void **state) {
        (void)state;
        char text[CLOCK_TEXT_MAX];
        uint64_t us = 0;
        assert_true(clock_parse_text(STR("2026-11-15T02:52:32.123456Z"), &us));
        clock_text(us, text);
        assert_string_equal(text, "2026-11-15T02:52:32.000000Z");
        assert_true(clock_parse_text(STR("2026-11-15"), &us));
        clock_text(us, text);
        assert_string_equal(text, "2026-11-15T00:00:00.000000Z");
        assert_false(clock_parse_text(STR(""), &us));
        assert_false(clock_parse_text(STR("2026-11-1"), &us));
        assert_false(clock_parse_text(STR("2026-11-15 02:52:32"), &us));
        assert_false(clock_parse_text(STR("1926-11-15"), &us));
}

static void compares_files_with_the_clock(void **state) {
        (void)state;
        const struct stat st = { .st_ctim = { .tv_sec = 1000, .tv_nsec = 2999 } };
        assert_true(clock_is_since(&st, 0));
        assert_true(clock_is_since(&st, 1000000001));
        assert_true(clock_is_since(&st, 1000000002)); /* in the very same microsecond */
        assert_false(clock_is_since(&st, 1000000003));
}

static void deadlines_are_rounded_up(void **state) {
        (void)state;
        assert_int_equal(clock_left_ms(CLOCK_NEVER), -1);
        assert_int_equal(clock_left_ms(0), 0);
        assert_int_equal(clock_left_ms(clock_ns()), 0);
        int left = clock_left_ms(clock_ns() + 5 * NS_PER_SECOND);
        assert_true(left > 0 && left <= 5000);
        uint64_t due = clock_ns() + NS_PER_SECOND / 2;
        left = clock_left_ms(due);
        assert_true(clock_ns() + (uint64_t)left * NS_PER_MS >= due); /* whoever waits that long is not too early */
        assert_int_equal(clock_left_ms(clock_after_ms(1ULL << 40)), CLOCK_WAIT_MAX_MS);
        assert_int_equal(clock_left_ms(CLOCK_NEVER - 1), CLOCK_WAIT_MAX_MS);
        assert_true(clock_after_ms(0) <= clock_ns());
        assert_true(clock_after_ms(UINT64_MAX) == CLOCK_NEVER);
        assert_true(clock_after_ms(UINT64_MAX / NS_PER_MS) == CLOCK_NEVER);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(parses_durations),
                cmocka_unit_test(reads_times_back),
                cmocka_unit_test(every_value_is_spelled_back),
                cmocka_unit_test(spells_times),
                cmocka_unit_test(knows_every_date),
                cmocka_unit_test(goes_forward),
                cmocka_unit_test(compares_files_with_the_clock),
                cmocka_unit_test(deadlines_are_rounded_up),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
