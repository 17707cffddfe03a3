/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two loops of the same form, one over the components of the path and one over the characters of a component. Each goes
 * back to the latest star only: if an earlier star could take more, so can the latest one. That bounds the time.
 */
#include "policy/match/glob.h"

#include "base/escape.h"

bool glob_has_magic(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] == '*' || text.p[i] == '?' || text.p[i] == '[')
                        return true;
        return false;
}

/* One character: a code point, or a byte that is not UTF-8, marked so that it equals no code point. */
static uint32_t take_char(struct str *s) {
        uint32_t c;
        size_t n = utf8_decode(*s, &c);
        if (n == 0) {
                c = 0x80000000U | (unsigned char)s->p[0];
                n = 1;
        }

        *s = str_skip(*s, n);
        return c;
}

/* Pattern stands behind '['. On success *pattern stands behind ']'; -1 when there is none: '[' then stands for itself.
 */
static int match_class(struct str *pattern, uint32_t c) {
        struct str rest = *pattern;
        bool negated = rest.n > 0 && (rest.p[0] == '!' || rest.p[0] == '^'), found = false;
        if (negated)
                rest = str_skip(rest, 1);

        for (bool first = true; rest.n > 0; first = false) {
                uint32_t low = take_char(&rest), high = low;
                if (low == ']' && !first) {
                        *pattern = rest;
                        return found != negated;
                }

                if (rest.n >= 2 && rest.p[0] == '-' && rest.p[1] != ']') {
                        rest = str_skip(rest, 1);
                        high = take_char(&rest);
                }

                found = found || (c >= low && c <= high);
        }

        return -1;
}

/* One step: the pattern's next element against the text's next character. */
static bool match_one(struct str *pattern, struct str *text) {
        uint32_t p = take_char(pattern), c = take_char(text);
        if (p == '?')
                return true;

        if (p == '[') {
                int r = match_class(pattern, c);
                if (r >= 0)
                        return r;
        }

        return p == c;
}

static bool match_component(struct str pattern, struct str text) {
        struct str star = { 0 }, star_text = { 0 };

        while (text.n > 0) {
                if (pattern.n > 0 && pattern.p[0] == '*') {
                        pattern = str_skip(pattern, 1);
                        star = pattern;
                        star_text = text;
                        continue;
                }

                if (pattern.n > 0 && match_one(&pattern, &text))
                        continue;
                if (!star_text.p)
                        return false;

                take_char(&star_text); /* the star takes one more */
                pattern = star;
                text = star_text;
        }

        while (pattern.n > 0 && pattern.p[0] == '*')
                pattern = str_skip(pattern, 1);

        return pattern.n == 0;
}

/* The components still to come; `left` tells an empty last one from none. */
struct cursor {
        struct str rest;
        bool left;
};

static struct str take_component(struct cursor *cursor) {
        ptrdiff_t slash = str_find(cursor->rest, '/');
        struct str part = slash < 0 ? cursor->rest : str_first(cursor->rest, (size_t)slash);
        cursor->left = slash >= 0;
        cursor->rest = str_skip(cursor->rest, slash < 0 ? part.n : part.n + 1);
        return part;
}

static struct cursor cursor_at(struct str s) {
        return (struct cursor){ s.n > 0 && s.p[0] == '/' ? str_skip(s, 1) : s, true };
}

bool glob_match(struct str pattern_text, struct str path_text) {
        struct cursor pattern = cursor_at(pattern_text), path = cursor_at(path_text);
        struct cursor star = { 0 }, star_path = { 0 };
        bool has_star = false;

        while (path.left) {
                struct cursor before = path;

                if (pattern.left) {
                        struct str part = take_component(&pattern);
                        if (str_eq(part, STR("**"))) {
                                if (!pattern.left)
                                        return true; /* at the end it takes all that is left, which is at least one */

                                has_star = true;
                                star = pattern;
                                star_path = path;
                                continue;
                        }

                        if (match_component(part, take_component(&path)))
                                continue;
                }

                path = before;
                if (!has_star)
                        return false;

                take_component(&star_path);
                pattern = star;
                path = star_path;
        }

        return !pattern.left;
}
