/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Trusting a workspace's own policy file: what it asks for, and the record of what a person has accepted.
 */
#include "base/err.h"
#include "conf/option.h"
#include "conf/trust.h"

struct trust_wish { /* a line that asks for more than was granted */
        char *place, *key, *text;
};
struct trust_report {
        char *path; /* NULL: the workspace has no such file */
        char digest[DIGEST_HEX_MAX];
        bool trusted;
        VEC(struct trust_wish) wishes;
};
void trust_report_done(struct trust_report *report);

/* Reads the file of `directory` (NULL: the current one), or of the directory that a file is in. */
int trust_examine(const char *directory, struct trust_report *ret, struct err *err);
