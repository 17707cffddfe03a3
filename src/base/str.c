/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "base/bounds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int ascii_hex(char c) {
        if (ascii_is_digit(c))
                return c - '0';
        c = ascii_lower(c);
        if ((c >= 'a' && c <= 'f'))
                return c - 'a' + 10;

        return -1;
}

bool str_eq_nocase(struct str a, struct str b) {
        if (a.n != b.n)
                return false;
        for (size_t i = 0; i < a.n; i++)
                if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
                        return false;
        return true;
}

bool str_starts(struct str s, struct str prefix) {
        return s.n >= prefix.n && str_eq(str_first(s, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix) {
        return s.n >= suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

ptrdiff_t str_find(struct str s, char c) {
        const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
        if (!at)
                return -1;

        return at - s.p;
}

ptrdiff_t str_rfind(struct str s, char c) {
        for (size_t i = s.n; i-- > 0;)
                if (s.p[i] == c)
                        return (ptrdiff_t)i;
        return -1;
}

bool str_has_nul(struct str s) {
        return str_find(s, '\0') >= 0;
}

struct str str_trim(struct str s) {
        while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
                s = str_skip(s, 1);
        while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
                s.n--;
        return s;
}

struct str str_skip(struct str s, size_t n) {
        size_t skipped = min_of(n, s.n);
        return (struct str){ skipped ? s.p + skipped : s.p, s.n - skipped }; /* s.p may be NULL when nothing is there */
}

struct str str_first(struct str s, size_t n) {
        return (struct str){ s.p, n < s.n ? n : s.n };
}

bool str_split(struct str *rest, char separator, struct str *ret_part) {
        if (!rest->p)
                return false;

        ptrdiff_t at = str_find(*rest, separator);
        if (at < 0) {
                *ret_part = *rest;
                *rest = (struct str){ NULL, 0 };
        } else {
                *ret_part = str_first(*rest, (size_t)at);
                *rest = (struct str){ rest->p + at + 1, rest->n - (size_t)at - 1 };
        }

        return true;
}

bool str_to_u64(struct str s, uint64_t max, uint64_t *ret) {
        uint64_t value = 0;

        if (s.n == 0)
                return false;

        for (size_t i = 0; i < s.n; i++) {
                if (!ascii_is_digit(s.p[i]))
                        return false;

                uint64_t digit = (uint64_t)(s.p[i] - '0');
                if (value > (UINT64_MAX - digit) / 10)
                        return false;

                value = value * 10 + digit;
        }

        if (value > max)
                return false;

        *ret = value;
        return true;
}

char *str_dup(struct str s) {
        if (str_has_nul(s)) {
                errno = EINVAL;
                return NULL;
        }

        char *copy = malloc(s.n + 1);
        if (!copy)
                return NULL;
        if (s.n)
                memcpy(copy, s.p, s.n);

        copy[s.n] = '\0';
        return copy;
}

char *str_format(const char *format, ...) {
        char *text = NULL;
        va_list args;
        va_start(args, format);
        int n = vasprintf(&text, format, args);
        va_end(args);
        return n < 0 ? NULL : text;
}

unsigned str_distance(struct str a, struct str b, unsigned limit) {
        enum { LONGEST = 64 };
        size_t difference = a.n > b.n ? a.n - b.n : b.n - a.n;
        if (a.n > LONGEST || b.n > LONGEST || difference > limit)
                return limit + 1;

        unsigned row[LONGEST + 1];
        for (unsigned j = 0; j <= b.n; j++)
                row[j] = j;

        for (unsigned i = 1; i <= a.n; i++) {
                unsigned diagonal = row[0];

                row[0] = i;

                for (unsigned j = 1; j <= b.n; j++) {
                        unsigned change = diagonal + (ascii_lower(a.p[i - 1]) != ascii_lower(b.p[j - 1]));
                        unsigned insert = row[j - 1] + 1, erase = row[j] + 1;

                        diagonal = row[j];
                        row[j] = min_of(change, insert);
                        if (erase < row[j])
                                row[j] = erase;
                }
        }

        return row[b.n] <= limit ? row[b.n] : limit + 1;
}
