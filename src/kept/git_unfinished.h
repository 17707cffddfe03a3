/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What git notes down about an operation that it has not finished, and which of it can make git run a program or write
 * to any file when somebody continues it. Only what git itself writes, and what is harmless, stays.
 */
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct unfinished_file {
        const char *directory, *name; /* in the git directory */
        bool by_line;                 /* harmful lines go; else the whole file */
        bool (*harmless)(struct str text);
};

/* A file of more than this was not written by git. */
enum { UNFINISHED_TEXT_MAX = 16 << 20 };

bool unfinished_harmless(const struct unfinished_file *file, struct str text);
/* Whether git keeps such files in a directory of this name. */
bool unfinished_directory(struct str name);
extern const struct unfinished_file unfinished_files[];
extern const size_t unfinished_count;
