/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Paths as text, for place.c and secrets.c: cleaned, seen from a directory, compared with patterns. */
#include "shell/call.h"

enum { PLACE_PATH_MAX = 4096 };

struct place_path {
        char text[PLACE_PATH_MAX];
        size_t n;
};
/* Filled by path_resolve(), and too large to be zeroed for every word of a command. */
#define PLACE_PATH_UNSET __attribute__((uninitialized))

/* What the argument names, seen from where the command stands by then; *ret lies in *out. False: longer than any path.
 */
bool path_resolve(struct sh_arg arg, struct place_path *out, struct str *ret);
/* It has a wildcard, or the directory has that it is seen from. */
bool path_is_pattern(struct sh_arg arg);
bool path_is_wild(char c);
bool path_has_hidden(struct str path);
size_t path_components(struct str s);
/* Could one text match both globs? `start`: at the beginning of a component. */
bool path_overlap(struct str a, struct str b, bool start, unsigned *budget);
