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

/* From how many names on it pays. */
enum { NAMES_WORTH = 4 };

/* Of a directory, as any descriptor of it. */
void names_read(struct names *names, int dir);
bool names_lack(const struct names *names, const char *name);
