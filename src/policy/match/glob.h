/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Globs over paths, of files and of requests: '*' and '?' stay within a component, '**' as a whole component stands for
 * any number of components (also none), [a-z] and [!a-z] are classes that never match '/'. There are no escapes: every
 * other byte stands for itself. "/a/" followed by "**" matches what is below /a, and /a itself does not match.
 *
 * Time is at most the product of the two lengths, whatever the pattern.
 */
#include "base/str.h"

bool glob_match(struct str pattern, struct str path);
/* Whether the text has any of * ? [ in it. */
bool glob_has_magic(struct str text);
