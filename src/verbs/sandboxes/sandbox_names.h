/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sandboxes as people name them: by the id, by the beginning of it, and a guest by its name. The guests' database says
 * whose name it is now, so that a guest that was renamed, ended or died is never taken for another one. Where a word
 * could mean two things, nothing is done.
 */
#include "base/err.h"
#include "base/vec.h"
#include "control/control_place.h"

#define NAMES_GUEST_MAX 64

/* The id of a sandbox that runs. Heap text. -ENOENT: there is none, or the guest with this name does not run. -EINVAL:
 * it could mean several. */
int names_sandbox(const char *word, char **ret, struct err *err);
/* The id of a guest's run in place of its name; every other word as it is, for those who look for runs in logs. Heap
 * text, NULL for NULL. */
int names_run(const char *word, char **ret, struct err *err);

/* The guests that run, for who shows ids. Empty where they cannot be read. */
struct guest_name {
        char id[CONTROL_ID_MAX], name[NAMES_GUEST_MAX];
};
typedef VEC(struct guest_name) guest_names;
void names_of_guests(guest_names *ret);
void guest_names_done(guest_names *names);
/* "": it is no guest. */
const char *names_guest(const guest_names *names, const char *id);
