/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A verb is data: its name, its options and words, its help text, and one function. Each verb has its own file, which
 * defines one `const struct verb verb_NAME`, and one line in the table in cli/verbs.c. Dispatch, help, completions and
 * the man pages all read these structs; nothing about a verb is written twice.
 *
 * The frame (cli/frame.c) parses the options by the verb's tables and calls run(). The function returns an exit status
 * (cli/exit.h). When it fails it fills *e and returns the code; the frame prints "bailey: VERB: text" and, for verbs
 * with VERB_PASSES_STATUS, moves Bailey's own codes out of the command's way. Results go to standard output.
 */
#include "cli/exit.h"
#include "conf/option.h"
#include "conf/suggest.h"

enum verb_group {
        GROUP_RUN,    /* run programs */
        GROUP_POLICY, /* decide and explain */
        GROUP_WATCH,  /* running sandboxes, approvals, records */
        GROUP_EGRESS, /* gateway for containers and guests */
        GROUP_HELP,
        VERB_GROUPS
};

enum verb_flags {
        VERB_HIDDEN = 1,  /* not in help and completions: for scripts and for Bailey itself */
        VERB_COMMAND = 2, /* the first word that is no option begins a command: nothing after it is read as ours */
        VERB_PASSES_STATUS = 4, /* the exit status is the command's: see EXIT_PASSING */
        VERB_NAMES = 8,         /* its words are names of verbs: for completion */
        VERB_GUEST = 16,        /* its first word is the name of a guest: for completion */
};

#define VERB_TABLES_MAX 8

struct verb;

/* One call of a verb. Options that follow the words are found too, unless the verb has VERB_COMMAND. */
struct call {
        const struct verb *verb, *parent; /* parent: "policy" of "policy check", else NULL */
        struct option_values options;     /* as given on the command line, the global ones included */
        int argc;                         /* words that are no options, without the verb's name */
        char **argv;                      /* NULL-terminated */
};

struct verb {
        const char *name;
        enum verb_group group;
        unsigned flags;       /* enum verb_flags */
        const char *synopsis; /* what follows the name: "[OPTIONS] -- COMMAND [ARG...]" */
        const char *help;     /* one line, lower case, no full stop */
        const char *about;    /* paragraphs for per-verb help and the man page, or NULL */
        const struct option_table
            *tables[VERB_TABLES_MAX];   /* NULL-terminated; the global ones are added by the frame */
        const struct verb *const *subs; /* NULL-terminated verbs of their own: "policy check"; then run may be NULL */
        int min_words, max_words;       /* checked before run(); max_words -1: any number */
        int (*run)(const struct call *call, struct err *e);
};

/* The table, in the order of display. */
extern const struct verb *const verbs[];
extern const size_t n_verbs;
extern const char *const verb_group_titles[VERB_GROUPS];
/* Options that every verb takes. */
extern const struct option_table global_options;

/* What a user types for it behind "bailey": "policy check", with the parent's name in front if there is one. */
struct verb_spelling {
        char text[64];
};

struct verb_spelling verb_spelled(const struct verb *parent, const struct verb *verb);

/* By name in a list (subs) or, with NULL, in the table; NULL when there is none. */
const struct verb *verb_find(const struct verb *const *list, const char *name);
/* "; did you mean 'x'?" from the parent's subs or, with NULL, from the table; "" when nothing is near. */
struct shown verb_suggest(const struct verb *parent, const char *name);
/* The verb's tables and the global one; returns how many were written. */
size_t verb_tables(const struct verb *verb, const struct option_table *ret[static VERB_TABLES_MAX + 1]);
/* What it says about itself at length: `about`, or the help line as a sentence. */
int verb_about(const struct verb *verb, struct buf *ret);

/* What was written to the buffer as JSON, as a line on standard output. Returns an exit status. */
struct emit;
int verb_print_json(const struct emit *json, const struct buf *out, struct err *err);
