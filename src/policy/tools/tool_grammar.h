/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The grammar of a bridged tool, as a person writes it: one line for each verb, as a manual page would print it.
 *
 *     pr view <int>? --json=<words> --comments -R|--repo=<repo>! +--no-pager
 *
 *     pr view              the words of the verb
 *     <int>                an argument; with ? at most one, with ... one and more, with * any number
 *     --comments           an option without a value
 *     --json=<words>       an option with a value, of this type
 *     -R|--repo=<repo>     the same in a short form; the tool always gets the long one
 *     !                    behind an option: the call must have it
 *     +--no-pager          the tool gets it in every call
 *
 * Types: text (one line, names no file), prose (any text), search (text without repo: and the like), int, word, words
 * (with commas), ref, refspec, repo, remote, or the values themselves: <json|yaml>. Nothing that a line does not name
 * can be said.
 */
#include "base/err.h"
#include "base/str.h"

enum tool_type {
        TOOL_FLAG,
        TOOL_TEXT,
        TOOL_PROSE,
        TOOL_SEARCH, /* text that a search is put together from: it names no place to search in */
        TOOL_INT,
        TOOL_WORD,
        TOOL_WORDS,
        TOOL_REF,
        TOOL_REFSPEC,
        TOOL_REPO,
        TOOL_REMOTE,
        TOOL_CHOICE,
        TOOL_TYPES
};

struct tool_slot {
        enum tool_type type;
        struct str choices; /* of TOOL_CHOICE: with | between them */
};

struct tool_option {
        struct str letter; /* "-R", or empty */
        struct str name;   /* "--repo"; or the letter, where there is no long form */
        struct tool_slot slot;
        bool required;
        bool always;      /* added to every call; nobody may give it */
        struct str value; /* of one that is always added: with its "=", or empty */
};

struct tool_place { /* an argument */
        struct tool_slot slot;
        bool optional, repeats;
};

enum { TOOL_WORDS_MAX = 6, TOOL_OPTIONS_MAX = 64, TOOL_PLACES_MAX = 6, TOOL_LINE_MAX = 2048 };

struct tool_verb {
        struct str line; /* borrowed, as everything below */
        struct str words[TOOL_WORDS_MAX];
        size_t n_words;
        struct tool_option options[TOOL_OPTIONS_MAX];
        size_t n_options;
        struct tool_place places[TOOL_PLACES_MAX];
        size_t n_places;
};

/* -EINVAL with what is wrong in it. */
int tool_verb_parse(struct str line, struct tool_verb *ret, struct err *err);
/* The option of this long name or letter that a call may have; NULL: none. */
const struct tool_option *tool_verb_option(const struct tool_verb *verb, struct str name);
bool tool_verb_same_words(const struct tool_verb *one, const struct tool_verb *other);
bool tool_verb_has_type(const struct tool_verb *verb, enum tool_type type);

/* What is refused with a reason: an option ("--exec: it runs a program"), an argument ("<secret>: ..."), or a verb. */
enum tool_never_kind { TOOL_NEVER_OPTION, TOOL_NEVER_ARGUMENT, TOOL_NEVER_VERB };
struct tool_never {
        enum tool_never_kind kind;
        struct str word, reason;
};
int tool_never_parse(struct str text, struct tool_never *ret, struct err *err);

/*
 * Calls that a person must agree to: the words that a verb begins with, and options that the call has, as "pr create"
 * or "push --atomic". "*" is every call.
 */
struct tool_ask {
        struct str words[TOOL_WORDS_MAX];
        size_t n_words; /* 0: any */
        struct str options[TOOL_WORDS_MAX];
        size_t n_options;
};
int tool_ask_parse(struct str text, struct tool_ask *ret, struct err *err);
/* Whether a call of this verb can be one. */
bool tool_ask_names(const struct tool_ask *ask, const struct tool_verb *verb);
