/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What systems differ in, for reader.c. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that is watched: its directory for files that are put in place of the old one, the file itself for those that
 * are written again, also at the end of a link. */
struct watched {
        char path[PATH_MAX]; /* "": no file */
        int at[2];           /* of its directory and of itself; -1: not watched */
        uint64_t stamp;
        bool changed;
};

/* A descriptor that is readable when something has changed, or -1: nothing is noticed then. */
int reader_notes_new(void);
/* `directory`: the one that the file is in. */
void reader_notes_watch(int notes, const char *directory, struct watched *file);
void reader_notes_read(int notes, struct watched *files, size_t n);
/* How long a change is left alone, for writers that write in parts. */
extern const uint64_t reader_settle_ns;

/* What a child writes into it should fit at once. */
void reader_widen(int pipe);
/* The reader, and each reading, end with what made them, where the kernel can be told. */
void reader_end_with_parent(void);
