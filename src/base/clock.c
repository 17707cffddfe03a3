/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

uint64_t clock_ns(void) {
        struct timespec timespec;
        clock_gettime(CLOCK_MONOTONIC, &timespec);
        return (uint64_t)timespec.tv_sec * NS_PER_SECOND + (uint64_t)timespec.tv_nsec;
}

uint64_t clock_after_ms(uint64_t ms) {
        uint64_t now = clock_ns();

        return ms < (CLOCK_NEVER - now) / NS_PER_MS ? now + ms * NS_PER_MS : CLOCK_NEVER;
}

int clock_left_ms(uint64_t due_ns) {
        if (due_ns == CLOCK_NEVER)
                return -1;

        uint64_t now = clock_ns();
        if (due_ns <= now)
                return 0;

        uint64_t left = (due_ns - now - 1) / NS_PER_MS + 1;
        return left < CLOCK_WAIT_MAX_MS ? (int)left : CLOCK_WAIT_MAX_MS;
}

static uint64_t timespec_us(struct timespec timespec) {
        return (uint64_t)timespec.tv_sec * 1000000 + (uint64_t)timespec.tv_nsec / 1000;
}

uint64_t clock_wall_us(void) {
        struct timespec timespec;
        clock_gettime(CLOCK_REALTIME, &timespec);
        return timespec_us(timespec);
}

bool clock_is_since(const struct stat *st, uint64_t wall_us) {
        return timespec_us(st->st_ctim) >= wall_us;
}

enum { SECONDS_PER_DAY = 86400 };

struct date {
        uint64_t year;
        unsigned month, day;
};

/* The date of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last one; 400 of
 * them have a fixed number of days. The library's function would read the time zone's file first. */
static struct date date_of(uint64_t days) {
        enum { DAYS_PER_400_YEARS = 146097, DAYS_PER_CENTURY = 36524, DAYS_PER_4_YEARS = 1461, TO_MARCH_OF_0 = 719468 };
        const uint64_t shifted = days + TO_MARCH_OF_0, era = shifted / DAYS_PER_400_YEARS;
        const unsigned in_era = (unsigned)(shifted % DAYS_PER_400_YEARS);
        const unsigned year =
            (in_era - in_era / (DAYS_PER_4_YEARS - 1) + in_era / DAYS_PER_CENTURY - in_era / (DAYS_PER_400_YEARS - 1)) /
            365;
        const unsigned in_year = in_era - (365 * year + year / 4 - year / 100);
        const unsigned from_march = (5 * in_year + 2) / 153, month = from_march < 10 ? from_march + 3 : from_march - 9;

        return (struct date){ era * 400 + year + (month <= 2), month, in_year - (153 * from_march + 2) / 5 + 1 };
}

/* The last n decimal digits. */
static void put_digits(char *at, unsigned n, uint64_t value) {
        for (; n-- > 0; value /= 10)
                at[n] = (char)('0' + value % 10);
}

void clock_text(uint64_t wall_us, char ret[static CLOCK_TEXT_MAX]) {
        static const char form[CLOCK_TEXT_MAX] = "0000-00-00T00:00:00.000000Z";
        const uint64_t seconds = wall_us / 1000000, second = seconds % SECONDS_PER_DAY;
        const struct date date = date_of(seconds / SECONDS_PER_DAY);

        memcpy(ret, form, sizeof form);
        put_digits(ret, 4, date.year);
        put_digits(ret + 5, 2, date.month);
        put_digits(ret + 8, 2, date.day);
        put_digits(ret + 11, 2, second / 3600);
        put_digits(ret + 14, 2, second / 60 % 60);
        put_digits(ret + 17, 2, second % 60);
        put_digits(ret + 20, 6, wall_us);
}

static const struct {
        const char *suffix;
        uint64_t ns;
} units[] = {
        /* longest first, so that the text is the shortest */
        { "d", 86400 * NS_PER_SECOND }, { "h", 3600 * NS_PER_SECOND }, { "m", 60 * NS_PER_SECOND },
        { "s", NS_PER_SECOND },         { "ms", NS_PER_MS },
};
enum { N_UNITS = sizeof units / sizeof units[0] };

bool clock_parse_duration(struct str s, uint64_t *ret_ns) {
        size_t digits = 0;
        while (digits < s.n && ascii_is_digit(s.p[digits]))
                digits++;

        struct str suffix = str_skip(s, digits);
        uint64_t unit = suffix.n == 0 ? NS_PER_SECOND : 0, number;

        for (size_t i = 0; i < N_UNITS; i++)
                if (str_is(suffix, units[i].suffix))
                        unit = units[i].ns;

        if (unit == 0 || !str_to_u64(str_first(s, digits), UINT64_MAX / unit, &number))
                return false;

        *ret_ns = number * unit;
        return true;
}

void clock_duration_text(uint64_t ns, char ret[static 24]) {
        for (size_t i = 0; i < N_UNITS; i++)
                if ((ns >= units[i].ns && ns % units[i].ns == 0) || i == N_UNITS - 1) {
                        snprintf(ret, 24, "%" PRIu64 "%s", ns / units[i].ns, ns ? units[i].suffix : "s");
                        return;
                }
}

bool clock_parse_text(struct str s, uint64_t *ret_us) {
        static const char form[] = "dddd-dd-ddTdd:dd:dd";
        enum { DAY = 10, SECOND = sizeof form - 1 };
        size_t n = s.n == DAY ? DAY : SECOND;
        int numbers[6] = { 0 }, k = 0;

        if (s.n != DAY && s.n < SECOND)
                return false;

        for (size_t i = 0; i < n; i++) {
                if (form[i] == 'd' ? !ascii_is_digit(s.p[i]) : s.p[i] != form[i])
                        return false;
                if (form[i] == 'd')
                        numbers[k] = numbers[k] * 10 + (s.p[i] - '0');
                else
                        k++;
        }

        struct tm tm = { .tm_year = numbers[0] - 1900,
                         .tm_mon = numbers[1] - 1,
                         .tm_mday = numbers[2],
                         .tm_hour = numbers[3],
                         .tm_min = numbers[4],
                         .tm_sec = numbers[5] };
        time_t t = timegm(&tm);
        if (t < 0)
                return false;

        *ret_us = (uint64_t)t * 1000000;
        return true;
}
