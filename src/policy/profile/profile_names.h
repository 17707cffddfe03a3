/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which profiles there are, without reading one: those that are built in, and files of the user and of the system. */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct profile_built_in {
        const char *name, *programs /* "a, b" */, *text;
};
extern const struct profile_built_in profiles_built_in[]; /* by name */
extern const size_t n_profiles_built_in;

/* Named so, a profile is none: --profile none. */
#define PROFILE_NONE "none"
#define PROFILE_SUFFIX ".yaml"

/* A name is part of a path: letters, digits and dashes. */
bool profile_name_is_good(struct str name);
/* -ENOENT with "did you mean". */
int profile_check_name(struct str name, struct err *err);
int profile_unknown(struct str name, struct err *err);

/* NULL: none of this name. */
const struct profile_built_in *profile_built_in_find(struct str name);
/* The file of this name, or NULL in *ret: then it is built in or unknown. */
int profile_file_find(struct str name, char **ret, struct err *err);

/* The names of all, sorted, each once; and of those only that are files, as they come. */
typedef VEC(char *) profile_names;
int profile_list(profile_names *ret, struct err *err);
int profile_list_files(profile_names *names, struct err *err);
void profile_names_done(profile_names *names);
