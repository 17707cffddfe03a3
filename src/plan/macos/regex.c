/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Globs as regular expressions of the profile language. Only forms that other profiles are known to use: ^ $ . * ? + |
 * ( ) and classes of ranges. A profile is ASCII, so what is not printable ASCII has no form of its own: it is matched
 * by its class, which refuses more than was asked for and never less.
 */
#include "plan/macos/seatbelt_internal.h"

#include "base/escape.h"

#include <errno.h>

/* A character that has no form of its own: up to four bytes, or one code point, whichever the kernel counts. */
#define OTHER_ONE "[^ -~][^ -~]?[^ -~]?[^ -~]?"
#define OTHER_RUN "[^ -~]+"

static bool is_printable(unsigned char c) {
        return c >= ' ' && c <= '~';
}

/* One printable character for itself; letters in both cases when they are folded. */
static int regex_add_char(struct buf *out, char c, bool fold) {
        bool letter = ascii_is_alnum(c) && !ascii_is_digit(c);

        if (c == '"') /* a quote would end the literal; what else is in this class is not printable */
                return buf_add(out, "[^ !#-~]");
        if (letter && fold)
                return buf_printf(out, "[%c%c]", c & ~0x20, c | 0x20);
        if (strchr(".*+?()[]{}^$|\\", c))
                return buf_printf(out, "\\%c", c);

        return buf_add_char(out, c);
}

/* A run of bytes that stand for themselves. */
static int regex_add_literal(struct buf *out, struct str text, bool fold) {
        int r = 0;

        for (size_t i = 0; i < text.n && r == 0; i++) {
                bool other = !is_printable((unsigned char)text.p[i]);

                if (other && i > 0 && !is_printable((unsigned char)text.p[i - 1]))
                        continue; /* the run has its form already */
                r = other ? buf_add(out, OTHER_RUN) : regex_add_char(out, text.p[i], fold);
        }

        return r;
}

/* What one place of a glob lets through. */
struct set {
        bool ascii[128];
        bool other;
        bool negated;
};

static void set_add_range(struct set *set, uint32_t low, uint32_t high) {
        for (uint32_t c = low; c <= high && c < 128; c++)
                set->ascii[c] = true;
        set->other = set->other || high >= 127 || low < ' ';
}

/* What follows '[' in a glob, as policy/match/glob.c reads it. False when there is no ']': then '[' stands for itself.
 */
static bool set_read(struct str *glob, struct set *set) {
        struct str rest = *glob;
        bool negated = rest.n > 0 && (rest.p[0] == '!' || rest.p[0] == '^');

        if (negated)
                rest = str_skip(rest, 1);

        for (bool first = true; rest.n > 0; first = false) {
                uint32_t low, high;
                size_t n = utf8_decode(rest, &low);

                if (n == 0)
                        low = 0x80000000U | (unsigned char)rest.p[0];

                rest = str_skip(rest, n ? n : 1);

                if (low == ']' && !first) {
                        for (size_t c = 0; negated && c < 128; c++)
                                set->ascii[c] = !set->ascii[c];

                        set->other = set->other || negated;
                        set->negated = negated;
                        *glob = rest;
                        return true;
                }

                high = low;

                if (rest.n >= 2 && rest.p[0] == '-' && rest.p[1] != ']') {
                        rest = str_skip(rest, 1);
                        n = utf8_decode(rest, &high);
                        if (n == 0)
                                high = 0x80000000U | (unsigned char)rest.p[0];

                        rest = str_skip(rest, n ? n : 1);
                }

                set_add_range(set, low, high);
        }

        return false;
}

static void set_fold(struct set *set) {
        for (int c = 'a'; c <= 'z'; c++) {
                bool either = set->ascii[c] || set->ascii[c & ~0x20];

                set->ascii[c] = set->ascii[c & ~0x20] = either;
        }
}

static bool is_special_in_class(int c) {
        return strchr("]^-\\[\"", c) != NULL;
}

/* Ranges of the set, without ends that mean something in a class. */
static int set_add_ranges(const struct set *set, struct buf *out, bool *ret_any) {
        int r = 0;

        for (int c = ' '; c <= '~' && r == 0; c++) {
                if (!set->ascii[c] || c == '/' || is_special_in_class(c))
                        continue;

                int last = c;
                while (last < '~' && set->ascii[last + 1] && last + 1 != '/')
                        last++;

                int end = last;
                while (end > c && is_special_in_class(end))
                        end--;

                r = buf_add(out, *ret_any ? "" : "[");
                *ret_any = true;
                if (r == 0)
                        r = end > c ? buf_printf(out, "%c-%c", c, end) : buf_add_char(out, (char)c);

                c = end;
        }

        return r;
}

/* As a group of alternatives: a class of ranges, the characters that would mean something in it, the rest. */
static int set_add(const struct set *set, struct buf *out) {
        bool ranges = false, any = false;
        int r = buf_add_char(out, '(');

        if (r == 0)
                r = set_add_ranges(set, out, &ranges);
        if (r == 0 && ranges)
                r = buf_add_char(out, ']');

        any = ranges;

        for (int c = ' '; c <= '~' && r == 0; c++) {
                if (!set->ascii[c] || !is_special_in_class(c))
                        continue;

                r = buf_add(out, any ? "|" : "");
                any = true;
                if (r == 0)
                        r = regex_add_char(out, (char)c, false);
        }

        if (r == 0 && (set->other || !any)) /* an empty set matches nothing on Linux; here it refuses a little */
                r = buf_add(out, any ? "|" OTHER_ONE : OTHER_ONE);

        return r == 0 ? buf_add_char(out, ')') : r;
}

static int regex_add_set(struct str *glob, struct buf *out, bool fold) {
        struct set set = { 0 };

        if (!set_read(glob, &set))
                return buf_add(out, "\\[");
        if (fold && !set.negated) /* of [!a], both cases together would refuse the one name that it spares */
                set_fold(&set);
        return set_add(&set, out);
}

static int regex_add_any_char(struct buf *out) {
        struct set set = { .other = true };

        for (size_t c = ' '; c <= '~'; c++)
                set.ascii[c] = true;
        return set_add(&set, out);
}

static int regex_add_component(struct str part, bool fold, struct buf *out) {
        int r = 0;

        while (part.n > 0 && r == 0) {
                char c = part.p[0];
                size_t n = 0;

                while (n < part.n && !strchr("*?[", part.p[n]))
                        n++;

                if (n > 0) {
                        r = regex_add_literal(out, str_first(part, n), fold);
                        part = str_skip(part, n);
                        continue;
                }

                part = str_skip(part, 1);

                if (c == '*') {
                        while (part.n > 0 && part.p[0] == '*')
                                part = str_skip(part, 1);
                        r = buf_add(out, "[^/]*");
                } else {
                        r = c == '?' ? regex_add_any_char(out) : regex_add_set(&part, out, fold);
                }
        }

        return r;
}

int seatbelt_regex_path(struct str path, bool fold, struct buf *out) {
        return regex_add_literal(out, path, fold);
}

/* `**` takes any number of components, also none; at the end it takes at least one. */
int seatbelt_regex_glob(struct str glob, size_t fold, bool below, struct buf *out) {
        int r = buf_add_char(out, '^');
        size_t at = 1; /* behind the first slash */

        while (at <= glob.n && r == 0) {
                struct str rest = str_skip(glob, at);
                ptrdiff_t slash = str_find(rest, '/');
                struct str part = slash < 0 ? rest : str_first(rest, (size_t)slash);
                bool last = slash < 0;

                if (str_is(part, "**"))
                        r = buf_add(out, last ? "/.+" : "(/[^/]+)*");
                else {
                        r = buf_add_char(out, '/');
                        if (r == 0)
                                r = regex_add_component(part, at >= fold, out);
                }

                at += part.n + 1;
        }

        if (r == 0)
                r = buf_add(out, below ? "(/.*)?$" : "$");

        return r == 0 && out->n > SEATBELT_STRING_MAX ? -EMSGSIZE : r;
}
