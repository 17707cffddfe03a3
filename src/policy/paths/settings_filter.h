/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings of the user that are seeded into the sandbox's own home: a copy made by a filter that knows harmless keys
 * and leaves out all else. A key is harmless when it names nobody's secret, no program, and no file that is obeyed.
 * URLs with a user or a password in them are left out whole. Pure: text in, text out.
 *
 * The text may be anything: parts that cannot be parsed are left out, and a file with nothing left seeds nothing.
 */
#include "base/buf.h"
#include "base/err.h"

typedef int home_filter(struct str text, struct buf *out);

struct home_settings {
        const char *path; /* below the home, here and there */
        home_filter *filter;
        const char *what;
};

extern const struct home_settings home_settings[];
extern const size_t n_home_settings;

enum { HOME_SETTINGS_MAX = 256 << 10 }; /* a larger file is none of settings */

/* The filters; 0, -ENOMEM, or -EMSGSIZE when the buffer's maximum is too small. */
int home_filter_git(struct str text, struct buf *out);
int home_filter_npm(struct str text, struct buf *out);
int home_filter_pip(struct str text, struct buf *out);
int home_filter_cargo(struct str text, struct buf *out);
int home_filter_claude(struct str text, struct buf *out);
int home_filter_lines(struct str text, struct buf *out); /* patterns of file names, one a line */
