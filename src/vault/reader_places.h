/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files that the vault's reader needs, for a system that can confine it to them. */
#include "base/vec.h"
#include "ipc/vault_messages.h"

#include <limits.h>

typedef VEC(char *) reader_paths;

/* As the kernel names them: links are followed, and what is reached through one counts under both names. */
struct reader_places {
        reader_paths read; /* each as it is: files, and the directories that they are in, whose changes are noticed */
        reader_paths written; /* with everything below: where the file of a sign-in is replaced, and locks */
};

int reader_places_of(const struct vault_start *start, const struct vault_mapping *mappings, struct reader_places *ret,
                     struct err *err);
void reader_places_done(struct reader_places *places);

/* The directory that a file is in. */
void reader_directory(const char *file, char ret[static PATH_MAX]);
