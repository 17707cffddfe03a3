/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The paths that a sandbox must not change, as the broker asks for them: the plan's guards in a table by path, with the
 * directories on the way to them. A query costs one lookup for each name in the path, whatever the number of guards.
 *
 * Paths are canonical and count at the moment of the call, so it does not matter what the host put there meanwhile.
 * Beside its path a guard has the object that was there when the broker began: carried elsewhere by the host, or
 * reached by a second name (a hard link), it stays closed.
 *
 * A built-in guard of a name that did not exist at launch is swept at the end (sandbox/guard.c). A file that the
 * sandbox makes there is its own until then; one that somebody else makes is not.
 */
#include "plan/plan.h"

#include <stdbool.h>
#include <sys/stat.h>

struct closed;

struct closed_look {
        const struct plan_guard *guard; /* at this path or above it, or NULL */
        bool at;                        /* it is at this very path */
        bool above;                     /* there are guards below this path */
        bool dir_counts;                /* its directory holds guards, or lies in one */
};

int closed_new(const struct plan *plan, struct closed **ret);
/* Guards that come while it is in use; nobody looks meanwhile. A path that is closed already is left out. -ENOMEM:
 * nothing of it can be used any more. */
int closed_add(struct closed *closed, const struct plan_guard *more, size_t n);
/* A path that stays open below them: before they are added. */
int closed_add_opening(struct closed *closed, const char *path);
void closed_free(struct closed *closed);
void closed_freep(struct closed **c);
void closed_look(const struct closed *closed, const char *path, struct closed_look *ret);

/*
 * Directories that hold guards, or lie in one, by their identity, with the path where each was last seen. The host may
 * move one while a call is judged, or for a while, and back.
 */
const char *closed_dir(const struct closed *closed, const struct stat *st);
void closed_learn_dir(struct closed *closed, const char *path, size_t n);

/* A guard of a name that may be made inside, because it is swept. */
bool closed_is_swept(const struct plan_guard *guard);

/* The guard whose object, now or at the beginning, this is; `links`: other names of it are looked for, too. */
const struct plan_guard *closed_object(const struct closed *closed, const struct stat *st, bool links);

/* Copies (plan_copy_of): by the path of its lock, or of itself; NULL: none. */
const struct plan_copy_of *closed_copy_by_lock(const struct closed *closed, const char *path);
/* Whether the object is the copy. */
bool closed_is_copy(const struct closed *closed, const struct stat *st);
/* The descriptor of the lock that somebody inside holds on this copy, or -1: the caller may change it. */
int *closed_lock(struct closed *closed, const struct plan_copy_of *copy);

/* What the sandbox made at a swept guard: an O_PATH descriptor of it, which is copied. */
void closed_own(struct closed *closed, const struct plan_guard *guard, int object);
bool closed_is_own(const struct closed *closed, const struct plan_guard *guard, const struct stat *st);
/* The same for what is at the guard's path now. */
bool closed_stands_own(const struct closed *closed, const struct plan_guard *guard);

/* Calls back for each guard below the path until one returns something else than 0. */
typedef int closed_each(void *context, const struct plan_guard *guard, const char *rest);
int closed_below(const struct closed *closed, const char *path, closed_each *each, void *context);
