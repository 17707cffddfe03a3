/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Of the vault and of its reader on macOS, in Seatbelt's language. */
#include "base/buf.h"
#include "vault/reader_places.h"

extern const char vault_profile[];

/* Without programs of the user's it reads these files and writes those of sign-ins. */
struct reader_profile {
        struct buf text;
        VEC(char *) parameters; /* name, value, ..., NULL; values belong to the places */
};
#define READER_PROFILE_NONE ((struct reader_profile){ .text = BUF(1 << 20) })
int reader_profile_write(const struct reader_places *places, struct reader_profile *ret, struct err *err);
void reader_profile_done(struct reader_profile *profile);
