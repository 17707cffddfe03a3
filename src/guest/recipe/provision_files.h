/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Steps of a recipe that put something into a guest's home: directories, files, links. */
#include "guest/guest_place.h"
#include "guest/recipe/recipe.h"

/* What is missing on the way is made. No link is followed: neither on the way nor at the end. A file replaces a file or
 * link of its name whole; a directory that is there stays as it is. */
int provision_file_step(const struct guest *guest, const struct recipe_step *step, struct err *err);
