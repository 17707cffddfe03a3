/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The names in a directory, one after the other, with no more system calls than it takes: readdir() of a descriptor
 * asks for its type and flags first, which adds up where many small directories are read.
 */
#include <dirent.h>

struct listing;

/* A directory by its name below another one; a link is not followed. NULL: errno says why. */
struct listing *listing_open(int dir, const char *name);
/* Of a descriptor that it takes, also when it fails; NULL when out of memory. */
struct listing *listing_take(int fd);
/* NULL at the end, and when no more can be read. "." and ".." are left out. */
const struct dirent64 *listing_next(struct listing *listing);
/* After NULL: 0 at the end, or the errno of why no more can be read. */
int listing_error(const struct listing *listing);
int listing_fd(const struct listing *listing);
/* For cleanup(). */
void listing_close(struct listing **listing);
