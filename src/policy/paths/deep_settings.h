/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names that an agent or an editor outside obeys in whatever directory a person starts it, so they are protected at any
 * depth of a writable place, not only at its top (policy/paths/paths_protected.c has those). A launch cannot look for
 * them in a large tree. The broker recognises them in the path of each call (sandbox/linux/broker/made/settings.h).
 */
#include <stdbool.h>
#include <stddef.h>

#define DEEP_SETTINGS_WHY "built in: agents and editors run what it says, in a subdirectory too"

struct deep_found {
        size_t above; /* so much of the path ends with the name, or with the first part of a name with two parts */
        size_t n;     /* so much of it ends with the whole name */
};

/* The first such name in the path behind `from` bytes of it, at any depth, in any case of letters. */
bool deep_settings_find(const char *path, size_t from, struct deep_found *ret);
/* Whether the path ends with the first part of a name with two parts: what is moved there may bring the second. */
bool deep_settings_begins(const char *path, size_t from);
