/* SPDX-License-Identifier: Apache-2.0 */
/* "pattern NUL path": the matcher says what the plain recursive definition says. Classes are left out of the
 * comparison. */
#include "fuzz.h"
#include "policy/match/glob.h"

enum { SHORT = 24, STARS = 5 }; /* the definition takes exponential time */

static bool component(struct str p, struct str s) {
        if (p.n == 0)
                return s.n == 0;
        if (p.p[0] == '*')
                return component(str_skip(p, 1), s) || (s.n > 0 && component(p, str_skip(s, 1)));
        return s.n > 0 && (p.p[0] == '?' || p.p[0] == s.p[0]) && component(str_skip(p, 1), str_skip(s, 1));
}

static struct str head(struct str s, struct str *tail, bool *last) {
        ptrdiff_t slash = str_find(s, '/');
        *last = slash < 0;
        *tail = *last ? str_skip(s, s.n) : str_skip(s, (size_t)slash + 1);
        return *last ? s : str_first(s, (size_t)slash);
}

static bool defined(struct str p, bool p_left, struct str s, bool s_left) {
        struct str p_tail, s_tail;
        bool p_last, s_last = true;
        if (!p_left)
                return !s_left;
        struct str part = head(p, &p_tail, &p_last);
        if (str_is(part, "**")) {
                if (p_last)
                        return s_left;
                if (defined(p_tail, true, s, s_left))
                        return true;
                if (!s_left)
                        return false;
                head(s, &s_tail, &s_last);
                return defined(p, true, s_tail, !s_last);
        }
        if (!s_left)
                return false;
        struct str name = head(s, &s_tail, &s_last);
        return component(part, name) && defined(p_tail, !p_last, s_tail, !s_last);
}

static struct str without_slash(struct str s) {
        return s.n > 0 && s.p[0] == '/' ? str_skip(s, 1) : s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        ptrdiff_t nul = str_find(input, '\0');
        if (nul < 0)
                return 0;
        struct str pattern = str_first(input, (size_t)nul), path = str_skip(input, (size_t)nul + 1);
        bool matched = glob_match(pattern, path);
        bool plain = pattern.n <= SHORT && path.n <= SHORT && str_find(pattern, '[') < 0;
        size_t stars = 0;
        for (size_t i = 0; plain && i < size; i++) {
                stars += data[i] == '*';
                plain = data[i] < 0x80 && stars <= STARS; /* a character is one byte */
        }
        if (plain)
                FUZZ_CHECK(matched == defined(without_slash(pattern), true, without_slash(path), true));
        return 0;
}
