/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files that somebody outside made just now, beside a protected name. A program that saves a file by renaming writes
 * another one first. A sandbox that opens that one, or replaces it, controls the protected file after the rename, and a
 * check of the name comes too late. So for a moment such a file belongs to its maker: calls that would change it wait,
 * and are then judged by its new name.
 *
 * Files that the sandbox made or named are known by inode number and birth time while they have that name. On a file
 * system without birth times, nothing waits.
 */
#include <stdbool.h>
#include <sys/stat.h>

struct fresh;

int fresh_new(struct fresh **ret);

/* In a directory that holds protected names: a name was made inside, or is about to go. An empty name is the object
 * that the descriptor is of. */
void fresh_made(struct fresh *fresh, int dir, const char *name);
void fresh_goes(struct fresh *fresh, int dir, const char *name);
/* Whether this is a file of somebody else's that is younger than a moment. */
bool fresh_is_foreign(const struct fresh *fresh, int dir, const char *name);
