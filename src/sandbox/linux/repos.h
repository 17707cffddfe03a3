/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Repositories in writable places, as the broker sees them come. The survey looks for repositories by a search that has
 * a bound; here none is needed: whoever makes a repository makes a `.git`, or one of the names that turn a directory
 * into a repository, and each of these calls is seen.
 *
 *   - What the sandbox made is its own, by the object. Where it is goes into the run's slot (manager/guards.h) at
 *     once, so that it is made harmless when the run is over, whoever was killed meanwhile.
 *   - A repository that was there before is closed: hooks, configuration, and the files that lead git elsewhere. It can
 *     be removed; what takes its place is the sandbox's own then.
 */
#include "plan/plan.h"

struct repos;

/* `record` (or -1) is the slot, which grows at its end; it stays the caller's. */
int repos_new(const struct plan *plan, int record, struct repos **ret);
void repos_free(struct repos *r);
void repos_freep(struct repos **r);

/* Whether the path lies in a directory that the sandbox may write and that holds guards. */
bool repos_cover(const struct repos *repos, const char *path);
/* Whether a new name like this could make a repository. */
bool repos_founds(const char *name);
/* The content of this path, or what stands there, is to change: 0, -EACCES, or -EDQUOT when no more can be noted. */
int repos_judge(const struct repos *repos, const char *path);
/* This name is about to be made, after it was judged: what it may found is noted first, so that whoever is killed, and
 * however full the disk is, nothing is made that nobody knows of. */
int repos_founding(struct repos *repos, const char *path);
/* This name was made; `replaced`: something else had it before. */
void repos_made(struct repos *repos, const char *path, bool replaced);
/* A directory is about to move, or two to change places: 0, or -EDQUOT and others when that cannot be noted. */
int repos_moving(struct repos *repos, const char *from, const char *to, bool exchanged);
/* It did; or it did not. */
void repos_moved(struct repos *repos, const char *from, const char *to, bool exchanged);
void repos_not_moved(struct repos *repos);
