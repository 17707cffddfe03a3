/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One policy file: opened and read as a tree, then laid over a policy by the rows of policy/options.h and the records
 * of policy/judge/records.h. Unknown keys are errors with a suggestion.
 */
#include "base/buf.h"
#include "conf/node.h"
#include "policy/load.h"

enum policy_file_flags {
        POLICY_FILE_REQUIRED = 1, /* an absent file is an error */
        POLICY_FILE_NO_LINK = 2,  /* a symbolic link is an error */
};

struct policy_file {
        char *path, *base; /* base: what relative paths in it are relative to */
        struct buf content;
        struct document *document; /* NULL: there is no such file */
        bool untrusted;            /* what widens is collected */
        VEC(struct widening) widenings;
        size_t allow_files_before, allow_files_after; /* its own part of network.allow_files */
};

/* `shown` is the name in messages and origins. */
int policy_file_open(struct policy_file *file, const char *path, const char *shown, unsigned flags, struct err *err);
/* Text that the caller has: `base` as in the struct. */
int policy_file_text(struct policy_file *file, const char *text, const char *base, const char *shown, struct err *err);
void policy_file_done(struct policy_file *file);
/* The preset that it names, as text; empty when it names none. */
struct str policy_file_preset(const struct policy_file *file);
int policy_file_apply(struct policy_file *file, struct policy *policy, struct err *err);
void widening_done(struct widening *widening);
