/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts of the user's home that are laid into the sandbox's own, one row each. Nothing else is there. A row is a
 * directory of programs or downloads, never a setting or a sign-in: if a tool keeps both in one place, the rows name
 * subdirectories (~/.cargo/bin, never ~/.cargo).
 */
#include <stddef.h>

enum home_row_kind {
        HOME_TOOLCHAIN, /* read-only */
        HOME_CACHE,     /* the user's below, read-only; what is written stays in the sandbox's own home */
};

struct home_row {
        const char *path; /* below the home; rows of one directory stand together */
        enum home_row_kind kind;
        const char *what;
};

extern const struct home_row home_rows[];
extern const size_t n_home_rows;
