/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The audit of one run on a Mac: the same lines in the same place as on Linux, or in the file that the policy names. */
#include "policy/paths/paths.h"
#include "sandbox/darwin/violation.h"
#include "store/audit.h"

struct macos_record {
        char *path;
        struct audit *audit; /* NULL: not open */
};

/* Where it will be. A file that the policy names is closed to the run: before the rules are compiled. */
int macos_record_place(struct macos_record *record, struct policy *policy, const char *id, struct err *err);
/* Opens it and says what is about to run. -EPERM for a place where the sandbox may write. */
int macos_record_open(struct macos_record *record, const struct policy *policy, const struct path_rules *rules,
                      const char *id, char *const *argv, struct err *err);
/* A denial of the profile, as the system log tells it. */
void macos_record_denial(struct macos_record *record, const struct violation *denial);
void macos_record_done(struct macos_record *record);
/* The run has ended with this status. */
void macos_record_end(struct macos_record *record, int status);
