/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names that a directory certainly does not have. If a caller looks for many names and almost none exists, reading a
 * small directory once costs less than looking each of them up.
 *
 * It only ever says "not there", and only where a listing is the whole truth: on file systems that list all they have,
 * for a directory of ordinary size, read to its end. Some directories do not tell upper case from lower case, and fold
 * letters of other alphabets: case is ignored here too, and one name outside ASCII makes everything possible.
 */
#include <stdbool.h>
#include <stdint.h>

struct names {
        bool read; /* else every name may be there */
        uint64_t seen[64];
};

/* From how many names on it pays, in a directory of one block and in one of a few. */
enum { NAMES_WORTH = 4, NAMES_WORTH_LARGE = 32 };

/* Of a directory, as any descriptor of it; nothing if it has more than one block. */
void names_read(struct names *names, int dir);
/* Before each look-up, with how many there were before: reads it when that pays. */
void names_look(struct names *names, int dir, unsigned looks);
bool names_lack(const struct names *names, const char *name);
