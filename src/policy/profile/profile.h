/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Profiles: what one agent needs, as a YAML file (profiles/README.md). They are built in; a file of the same name in
 * ~/.config/bailey/profiles or /etc/bailey/profiles counts instead, in this order. A profile is laid over a policy
 * after all layers: it adds to lists, and a person's own setting (a variable, a credential) wins over it.
 */
#include "policy/file.h"
#include "policy/policy.h"
#include "policy/profile/profile_names.h"

/* The origin of a profile that nobody named. */
#define PROFILE_BY_PROGRAM "the program's name"

struct profile {
        char *name;
        char *path; /* NULL: built in */
        struct policy_file file;
};
void profile_done(struct profile *profile);

/* -ENOENT with "did you mean". */
int profile_open(struct str name, struct profile *ret, struct err *err);
/* The same from a file anywhere. */
int profile_open_file(const char *path, struct profile *ret, struct err *err);
/* Whether everything in it can be laid over a policy. */
int profile_check(const struct profile *profile, struct err *err);

/* The profile whose programs have this one, as it would be found in PATH. A program in the workspace, or a link there
 * on the way to it, is part of the confined code, and chooses nothing. NULL in *ret: none. */
int profile_of_program(const char *program, const char *workspace, char **ret, struct err *err);

/* The built-in profile of an agent that another program seems to start (`npx @openai/codex`, `env claude`), or of this
 * one (`node_modules/.bin/claude`); NULL: none. For a hint: nothing is granted by it. */
const char *profile_hinted(char *const argv[]);

/* The text of a key at the top ("title"), "" without it; the list of one (programs, notes). */
const char *profile_text(const struct profile *profile, const char *key);
const struct node *profile_node(const struct profile *profile, const char *key);

/* Lays it over the policy. `origin` is who asked for it. */
int profile_apply(const struct profile *profile, struct policy *policy, const char *origin, struct err *err);
