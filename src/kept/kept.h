/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What sandboxes made under protected names, moved aside at the end of the run instead of being deleted:
 *
 *     $XDG_STATE_HOME/bailey/kept/ID/   NNN-NAME   as it was found
 *                                       list       for each: name, NUL, path, NUL
 *
 * Nothing in it is ever run or obeyed. A person inspects it, restores it or deletes it (`bailey kept`).
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdint.h>

struct kept_entry {
        char *id;   /* of the run */
        char *name; /* in the store */
        char *path; /* where it was */
};
typedef VEC(struct kept_entry) kept_entries;
void kept_entries_done(kept_entries *list);

/* The directory of one run, made where it is not there. */
int kept_open(const char *id, int *ret_fd, struct err *err);
/* One more line of its list. */
int kept_record(int fd, const char *name, const char *path);

/* Of one run (the id or its beginning) or, with NULL, of all; by run and number. */
int kept_list(const char *id, kept_entries *ret, struct err *err);
/* The path of it in the store. */
char *kept_place(const struct kept_entry *entry);
/* Moves it back to its place. -EEXIST when something is there. */
int kept_restore(const struct kept_entry *entry, struct err *err);
/* The oldest runs go when what is kept is older or more than this; `except` is the id of the run that keeps something
 * now. */
enum { KEPT_DAYS_MAX = 30 };
#define KEPT_BYTES_MAX ((uint64_t)1 << 30)
typedef void kept_pruned(const char *id, void *context);
int kept_prune(const char *except, kept_pruned *pruned, void *context);
/* Removes all that is kept of a run. */
int kept_remove(const char *id, struct err *err);
