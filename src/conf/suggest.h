/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For error messages: text from outside made safe to show in one, and "did you mean".
 */
#include "base/str.h"

#define SHOWN_MAX 176

struct shown {
        char text[SHOWN_MAX];
};
/* In quotes, escaped, clipped: printf("%s", show(s).text). */
struct shown show(struct str s);

#define SHOWN_PATH_MAX 520
struct shown_path {
        char text[SHOWN_PATH_MAX];
};
/* The same for a path, which says most at its end: of a long one the beginning is left out. */
struct shown_path show_path(const char *path);

/* The best of several candidates, offered one after the other. */
struct suggestion {
        struct str word;
        const char *best;
        unsigned distance;
};
struct suggestion suggest_for(struct str word);
void suggest_offer(struct suggestion *suggestion, const char *candidate);
/* "; did you mean 'x'?" (with `prefix` before x), or "" when nothing is near. */
struct shown suggest_text(const struct suggestion *suggestion, const char *prefix);
