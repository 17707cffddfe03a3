/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Recipes: what a guest is to have, as a YAML file (recipes/README.md). A recipe becomes an ordered list of steps, each
 * with a digest of all that it depends on; guest/recipe/provision.h does them. Pure but for the reading of files.
 * Nothing in a recipe names a place outside the guest's home.
 *
 * Recipes are built in; a file of the same name in ~/.config/bailey/recipes or /etc/bailey/recipes counts instead, in
 * this order.
 */
#include "base/err.h"
#include "base/secrets/digest.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <sys/types.h>

struct document;

enum { RECIPE_STEPS_MAX = 1000, RECIPE_FILE_MAX = 1 << 20, RECIPE_NEEDS_MAX = 32 };

enum recipe_kind {
        RECIPE_DIRECTORY,
        RECIPE_FILE,
        RECIPE_LINK,
        RECIPE_ENVIRONMENT,
        RECIPE_TOOL,    /* one tool by its manager; runs inside */
        RECIPE_COMMAND, /* runs inside */
        RECIPE_KINDS
};

struct recipe_step {
        enum recipe_kind kind;
        char *name;          /* for people, and its key: no two steps of a recipe have the same */
        char *path;          /* below the home, without "~/"; NULL for those that run inside */
        char *text;          /* content of a file, target of a link below the home, script, tool */
        const char *manager; /* of a tool; static */
        mode_t mode;         /* of a file; 0: for the guest and the host user alone */
        uint64_t timeout_ns; /* of what runs inside */
        char digest[DIGEST_HEX_MAX];
};

struct recipe_variable {
        char *name, *value; /* "~" at the beginning of a value stands for the home */
};

typedef VEC(char *) recipe_texts;
void recipe_texts_done(recipe_texts *texts);

struct recipe {
        char *name; /* as it is known in the database: its name, or the path of its file */
        char *title;
        recipe_texts needs; /* recipes that come first */
        recipe_texts allow; /* patterns: what may be reached while its steps run */
        VEC(struct recipe_variable) variables;
        VEC(struct recipe_step) steps;
};
void recipe_done(struct recipe *recipe);

/* `name` is shown in errors: "name:line:column: what, why". */
int recipe_parse(struct str text, const char *name, struct recipe *ret, struct err *err);

/* The script that installs a tool, run by sh -c with the tool as its first word. */
const char *recipe_manager_script(const char *manager);
/* NULL, or a directory below the home in which the manager takes no file that its group may write. */
const char *recipe_manager_secluded(const char *manager);

struct recipe_built_in {
        const char *name, *text;
};
extern const struct recipe_built_in recipes_built_in[]; /* by name */
extern const size_t n_recipes_built_in;

typedef VEC(struct recipe) recipe_list;
void recipe_list_done(recipe_list *list);
/* By name, or by path where the word has a slash or ends with ".yaml"; those that it needs come before it, and each
 * once. -ENOENT with "did you mean"; -ELOOP: recipes that need each other. */
int recipe_open(const char *word, recipe_list *list, struct err *err);
/* The text of one, for people; *ret_path is NULL for a built-in one. */
struct buf;
int recipe_text(const char *word, struct buf *ret, char **ret_path, struct err *err);
/* Names of all that can be found by name, sorted, each once. */
int recipe_names(recipe_texts *ret, struct err *err);
