/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The material of the user's stand-ins: one key for all of them, and how often each credential was rotated. A stand-in
 * is derived from key, place (the workspace), credential and number of rotations, so that it is the same in each run:
 * agents store, compare and approve what they take for a key. The file is 0600 in the state directory, made on first
 * use; two starts at once get the same one.
 *
 *     bailey stand-ins 1
 *     key 64 hexadecimal digits
 *     rotated 2                all of them, twice
 *     rotated 1 openai         and this one once more
 */
#include "base/err.h"
#include "base/secrets/digest.h"

struct stand_ins; /* opaque */

int stand_ins_open(struct stand_ins **ret, struct err *err);
void stand_ins_close(struct stand_ins *stand_ins);
void stand_ins_closep(struct stand_ins **stand_ins);

/* How often this credential's stand-ins were rotated, alone or with all. */
uint64_t stand_ins_rotations(const struct stand_ins *ins, const char *credential);
/* What they are made of after so many rotations. */
void stand_ins_seed(const struct stand_ins *ins, const char *place, const char *credential, uint64_t rotations,
                    unsigned char ret[static DIGEST_BYTES]);

/* The next run gets others. NULL: of all credentials. */
int stand_ins_rotate(const char *credential, struct err *err);
