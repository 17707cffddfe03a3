/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

uint64_t clock_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t clock_wall_us(void) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void clock_text(uint64_t wall_us, char ret[static CLOCK_TEXT_MAX]) {
        time_t seconds = (time_t)(wall_us / 1000000);
        struct tm parts;
        gmtime_r(&seconds, &parts);
        size_t n = strftime(ret, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(ret + n, CLOCK_TEXT_MAX - n, ".%06uZ", (unsigned)(wall_us % 1000000));
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
