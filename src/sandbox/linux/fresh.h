/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files that somebody outside made just now, beside a protected name. Whoever saves a file by renaming writes another
 * one first: a sandbox that opens that one, or puts its own in its place, has the protected file once it is renamed,
 * and no judgement of the name comes in time. So for its first moment such a file is its maker's: calls that would
 * change it wait, and are then judged by what has become of it.
 *
 * What the sandbox itself made, or gave a name, is known by its number and its time of birth as long as it has that
 * name. Where a file system has no times of birth, nothing waits.
 */
#include <stdbool.h>
#include <sys/stat.h>

struct fresh;

int fresh_new(struct fresh **ret);
void fresh_free(struct fresh *fresh);

/* In a directory that holds protected names: a name was made inside, or is about to go. An empty name is the object
 * that the descriptor is of. */
void fresh_made(struct fresh *fresh, int dir, const char *name);
void fresh_goes(struct fresh *fresh, int dir, const char *name);
/* Whether this is a file of somebody else's that is younger than a moment. */
bool fresh_is_foreign(const struct fresh *fresh, int dir, const char *name);
