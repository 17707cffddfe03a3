/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Services whose credentials Bailey knows how to handle: one row each. `provider: NAME` in a policy takes from its row
 * what the entry does not say itself.
 */
#include "base/str.h"

struct provider {
        const char *name, *title;
        const char *const *env;   /* variables in which clients look for it; those that the host has get the stand-in */
        const char *const *hosts; /* patterns, port 443 where none is given */
        const char *const *slots; /* every place in which clients put it; see check_slot() */
        const char *prefix;       /* how its secrets begin; "" where they have no common beginning */
        const char *base_url;     /* the variable by which SDKs are pointed elsewhere; NULL: none in common use */
        const char *base_path;    /* what stands behind the host in that variable; NULL: it is not set */
        const char *git_user;     /* git over https sends it as the password of this user; NULL: git does not use it */
        const char *const *set;   /* NAME=VALUE: what clients want beside it */
        /* Those of `env` that get a stand-in only if the host has them itself: a client that finds both complains, or
         * takes the other for something else. NULL: none. */
        const char *const *only_as_host;
};

extern const struct provider policy_providers[];
extern const size_t n_policy_providers;
/* The same names for option tables, NULL-terminated. */
extern const char *const policy_provider_names[];

const struct provider *provider_find(struct str name); /* NULL: none */
