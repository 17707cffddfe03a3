/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between own_commands.c, which takes a command apart, and own_places.c, which judges where its words lead. */
#include "base/err.h"
#include "base/str.h"
#include "policy/paths/paths.h"

#include <stdbool.h>

enum { OWN_BASES_MAX = 8, OWN_SET_MAX = 64 };

/* In a word: text that is known only when the command runs. */
#define OWN_UNKNOWN '\001'
#define OWN_UNKNOWN_TEXT "\001"

/* Whether the words that follow are names of variables: behind `for`, behind `read`. */
enum own_names { OWN_NAMES_NONE, OWN_NAMES_ONE, OWN_NAMES_ALL };

struct own_check {
        const struct path_rules *rules;
        const char *home;
        char *const *environment;
        const char *what; /* "credential 'x'", for the message */
        struct err *err;
        bool goes;                  /* the command changes its directory */
        bool goes_next;             /* to the next word */
        char *bases[OWN_BASES_MAX]; /* directories that it names so far: it may have gone there */
        size_t n_bases;
        struct {
                char *name, *value;
        } set[OWN_SET_MAX]; /* values that it gives to variables so far */
        size_t n_set;
        enum own_names names;
        bool only_text;   /* this word is an argument of a command that only handles text */
        unsigned matches; /* of patterns, that were looked at */
        unsigned words;   /* that were looked at */
};

int own_no_memory(const struct own_check *check);
/* The next of the values that a variable may have; *at begins with 0. NULL: that was all. */
const char *own_value(const struct own_check *check, struct str name, size_t *at);
/* A word as the shell has it: whether a place that it names may be written inside. */
int own_check_word(struct own_check *check, struct str word);
