/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The submodules in an index of git: paths at which git looks for a repository of its own, and obeys it. Versions 2 to
 * 4, as git writes them. Pure.
 */
#include "base/str.h"

/* The path is relative to the working tree; it holds during the call. Not 0 ends the reading with it. */
typedef int gitindex_each(struct str path, void *context);

/* `hash` is the length of an object's name: 20 or 32. -EBADMSG if it is no index; entries that were read before that
 * count. */
int gitindex_links(struct str bytes, unsigned hash, gitindex_each *each, void *context);
