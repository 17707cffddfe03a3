/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/suggest.h"

#include "base/cleanup.h"
#include "base/escape.h"

#include <stdio.h>

struct shown show(struct str s) {
        enum { LONGEST = 48 }; /* each byte may become four, and a clipped one says how much is missing */
        struct shown shown = { "" };
        char *p = shown.text;
        cleanup(buf_done) struct buf b = BUF(SHOWN_MAX * 4);
        if (escape_text(&b, s, LONGEST) == 0)
                snprintf(p, sizeof shown.text, "'%.*s'", STR_FMT(buf_str(&b)));
        return shown;
}

struct shown_path show_path(const char *path) {
        enum { LONGEST = 120 };
        struct shown_path shown = { "" };
        struct str whole = str_of(path), end = whole.n > LONGEST ? str_skip(whole, whole.n - LONGEST) : whole;
        cleanup(buf_done) struct buf escaped = BUF(SHOWN_PATH_MAX * 4);

        if (escape_text(&escaped, end, LONGEST) == 0)
                snprintf(shown.text, sizeof shown.text, "'%s%.*s'", whole.n > end.n ? "..." : "",
                         STR_FMT(buf_str(&escaped)));

        return shown;
}

struct suggestion suggest_for(struct str word) {
        /* A third of the letters may be wrong; more is another word. */
        unsigned limit = 1;
        if (word.n >= 9)
                limit = 3;
        else if (word.n >= 4)
                limit = 2;

        return (struct suggestion){ .word = word, .distance = limit + 1 };
}

/* Two letters next to each other that changed places, "nmp": one slip, however short the word is. */
static bool is_swapped(struct str word, struct str other) {
        size_t i = 0;

        if (word.n != other.n)
                return false;

        while (i < word.n && ascii_lower(word.p[i]) == ascii_lower(other.p[i]))
                i++;

        return i + 1 < word.n && ascii_lower(word.p[i]) == ascii_lower(other.p[i + 1]) &&
               ascii_lower(word.p[i + 1]) == ascii_lower(other.p[i]) &&
               str_eq_nocase(str_skip(word, i + 2), str_skip(other, i + 2));
}

void suggest_offer(struct suggestion *suggestion, const char *candidate) {
        if (!candidate || suggestion->word.n == 0)
                return;

        unsigned distance = is_swapped(suggestion->word, str_of(candidate))
                                ? 1
                                : str_distance(suggestion->word, str_of(candidate), suggestion->distance);
        bool same_start =
            ascii_lower(candidate[0]) == ascii_lower(suggestion->word.p[0]); /* people get the first letter right */
        if (distance < suggestion->distance || (suggestion->best && distance == suggestion->distance && same_start)) {
                suggestion->distance = distance;
                suggestion->best = candidate;
        }
}

struct shown suggest_text(const struct suggestion *suggestion, const char *prefix) {
        struct shown shown = { "" };
        if (suggestion->best)
                snprintf(shown.text, sizeof shown.text, "; did you mean '%s%s'?", prefix, suggestion->best);
        return shown;
}
