/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings of agents and editors below the top of a writable place (policy/paths/deep_settings.h), as the broker sees
 * them being made or changed. No launch looks for them: a tree may be large, and some come during the run.
 *
 *   - What the sandbox did not make is closed. It can be removed, or moved elsewhere: trees with such names are removed
 *     by package managers all the time, and by git, which puts another version in its place.
 *   - A name that is free may be made: packages, archives and checkouts contain such names. It is noted before it is
 *     made (notes.h), it is the sandbox's own by its object, and it is moved away after the run (kept/kept.h).
 *   - In a directory of the sandbox's own such names are noted as well: they may be taken out of it.
 *   - A grant to write that names such a file, or a directory with it, opens it.
 */
#include "plan/plan.h"
#include "sandbox/linux/broker/made/notes.h"

struct settings;

/* The notes stay the caller's. */
int settings_new(const struct plan *plan, struct notes *notes, struct settings **ret);
void settings_free(struct settings *settings);
void settings_freep(struct settings **settings);

/* What is at this path is about to change: 0 or -EACCES. Names in the first `from` bytes of it do not count. */
int settings_judge(const struct settings *settings, const char *path, size_t from);
/* This name is about to be made; `brought`: by anything but mkdir(), so that it may bring more names along. 0, noted
 * where that is needed (*ret_noted, else unchanged); -EACCES: it is there, and not the sandbox's own; -EDQUOT: no more
 * can be noted. */
int settings_making(struct settings *settings, const char *path, size_t from, bool brought, bool *ret_noted);
/* What was noted was made. */
void settings_made(struct settings *settings, const char *path);
