/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Refused names that do not exist when a run on a Mac begins. The profile lets nobody make one, but macOS asks only
 * about the new name when a directory is moved: `mv prepared .git` brings hooks along. So when the command has ended,
 * what lies at such a name is moved away, into the store of `bailey kept`, as on Linux (kept/guard_registry.h). A
 * program that outlives the run can do it again.
 */
#include "kept/guard_registry.h"
#include "policy/paths/paths.h"
#include "store/audit.h"

struct macos_guards {
        struct guards guards;
        struct plan_host host; /* refused names in writable places, as they were */
        struct plan plan;      /* nothing but guards, whose texts are the host's */
        struct audit *audit;
        bool quiet;
};
#define MACOS_GUARDS_NONE ((struct macos_guards){ .guards = GUARDS_NONE })

/* Before the profile is made: what git would obey in repositories of writable directories may not be written. */
int macos_guards_survey(struct macos_guards *guards, struct policy *policy, struct err *err);
/* Before anything runs. The struct must not move from here on; id and audit must outlive it. */
int macos_guards_begin(struct macos_guards *guards, const struct policy *policy, const struct path_rules *rules,
                       const char *id, struct audit *audit, struct err *err);
/* The command runs, as this process. */
void macos_guards_started(struct macos_guards *guards, pid_t pid);
/* It has ended, or (`ran` is false) never began. */
int macos_guards_end(struct macos_guards *guards, const struct policy *policy, const struct path_rules *rules, bool ran,
                     struct err *err);
void macos_guards_done(struct macos_guards *guards);
