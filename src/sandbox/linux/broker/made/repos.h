/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Repositories in writable places, as the broker sees them being made. The survey's search for repositories is bounded;
 * no bound is needed here: making a repository means making a `.git`, or a name that turns a directory into a
 * repository, and the broker sees each of these calls.
 *
 *   - A repository that the sandbox made is its own, by object. Its path is noted at once (notes.h), so that it is made
 *     harmless after the run, even if a process was killed.
 *   - An older repository is closed: hooks, configuration, and the files that lead git elsewhere. It can be removed;
 *     its replacement is then the sandbox's own.
 */
#include "plan/plan.h"
#include "sandbox/linux/broker/made/notes.h"

struct repos;

/* The notes stay the caller's. */
int repos_new(const struct plan *plan, struct notes *notes, struct repos **ret);
void repos_free(struct repos *r);
void repos_freep(struct repos **r);

/* Whether the path lies in a directory that the sandbox may write and that holds guards. */
bool repos_cover(const struct repos *repos, const char *path);
/* Whether a new name like this could make a repository. */
bool repos_founds(const char *name);
/* The content or the object at this path is about to change: 0, -EACCES, or -EDQUOT when no more can be recorded. */
int repos_judge(const struct repos *repos, const char *path);
/* This name was judged and is about to be made: the repository that it may create is recorded first, so that none
 * exists unrecorded, even after a kill or on a full disk. */
int repos_founding(struct repos *repos, const char *path);
/* This name was made; `replaced`: something else had it before. */
void repos_made(struct repos *repos, const char *path, bool replaced);
