/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between own_commands.c, which takes a command apart, and own_places.c, which judges where its words lead. */
#include "base/err.h"
#include "base/str.h"
#include "policy/paths/paths.h"

#include <stdbool.h>

enum { OWN_BASES_MAX = 8, OWN_SET_MAX = 16 };

/* In a word: text that is known only when the command runs. */
#define OWN_UNKNOWN '\001'
#define OWN_UNKNOWN_TEXT "\001"

struct own_check {
        const struct path_rules *rules;
        const char *home;
        char *const *environment;
        const char *what; /* "credential 'x'", for the message */
        struct err *err;
        bool goes;                  /* the command changes its directory */
        char *bases[OWN_BASES_MAX]; /* directories that it names so far: it may have gone there */
        size_t n_bases;
        struct {
                char *name, *value;
        } set[OWN_SET_MAX]; /* variables that it sets so far */
        size_t n_set;
        bool names_variables; /* `for` or `read` stands before this word */
        unsigned matches;     /* of patterns, that were looked at */
};

int own_no_memory(const struct own_check *check);
/* NULL: nobody has set it yet. */
const char *own_variable(const struct own_check *check, struct str name);
/* A word as the shell has it: whether a place that it names may be written inside. */
int own_check_word(struct own_check *check, struct str word);
