/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kept homes, for people: listing them, comparing them with the real home, and copying something out on purpose.
 * Their content is hostile; sandbox/overlay.h compares and copies it, as for the changes of a run with --overlay, with
 * the same marks for files that would be run outside.
 */
#include "base/err.h"
#include "base/vec.h"
#include "sandbox/overlay.h"

#include <stdbool.h>
#include <stdint.h>

struct home_kept {
        char *id, *directory, *files;
        char *workspace;  /* it was made for; "" when nobody knows any more */
        uint64_t made_us; /* wall clock */
        uint64_t used_us;
        bool in_use;
};
typedef VEC(struct home_kept) homes;
void home_kept_done(struct home_kept *kept);
void homes_done(homes *list);

/* The newest use last. A directory that is not there holds none. */
int homes_list(homes *ret, struct err *err);
/* By id (or the beginning of one), or that of the workspace when id is NULL. -ENOENT when there is none. */
int homes_find(const char *id, const char *workspace, struct home_kept *ret, struct err *err);
int homes_remove(const struct home_kept *kept, struct err *err);

/* The differences from the real home, except files that Bailey laid there and nobody changed. */
int homes_changes(const struct home_kept *kept, struct changes *ret, struct err *err);
/* Into the real home. -EBUSY while a sandbox runs in it. */
int homes_export(const struct home_kept *kept, const struct change *change, struct err *err);
/* -EBUSY while a sandbox runs in it. */
int homes_hold(const struct home_kept *kept, int *ret_lock, struct err *err);

/* What Bailey laid into it, each once; `changed`: not as it was laid any more. */
typedef int homes_laid_each(const char *path, bool changed, void *context);
int homes_laid(const struct home_kept *kept, homes_laid_each *each, void *context, struct err *err);
