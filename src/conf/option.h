/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The option registry: one row says everything about a setting, so that the flag, the file key, the environment variable,
 * the help text, the completion and the row in the man page cannot disagree. Modules export tables; the command line, the
 * file loader and the documents read them.
 */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum option_type {
        OPTION_FLAG,     /* --x, --no-x, true/false in files */
        OPTION_STRING,
        OPTION_INTEGER,
        OPTION_SIZE,     /* 2GiB, 512M, bytes */
        OPTION_DURATION, /* 10s, 5m */
        OPTION_CHOICE,   /* one of `choices` */
        OPTION_PATH,
        OPTION_LIST,     /* repeatable strings; a sequence in files */
        OPTION_TYPES
};

struct option {
        const char *flag;    /* without dashes: "allow"; NULL: not on the command line */
        char letter;         /* short form, 0 for none */
        const char *key;     /* in files: "network.allow"; NULL: not in files */
        const char *env;     /* "BAILEY_ALLOW"; NULL: no variable */
        enum option_type type;
        const char *metavar; /* "PATTERN" */
        int64_t min, max;    /* integers, sizes (bytes), durations (ns); both 0: unchecked */
        const char *const *choices; /* NULL-terminated */
        const char *fallback; /* default as text, NULL: none */
        const char *help;     /* one line, lower case, no full stop */
        bool widens;          /* a workspace file may set it only when trusted */
};

struct option_table {
        const char *title; /* heading in help and man page: "Network" */
        const struct option *rows;
        size_t n;
};

/* One value given somewhere, in the order of the layers; later layers win, lists add up. */
struct option_value {
        const struct option *option;
        char *text;   /* validated against the row */
        char *origin; /* "--allow", "BAILEY_MODE", "policy.yaml:3:9" */
};
struct option_values {
        VEC(struct option_value) values;
};
void option_values_done(struct option_values *v);

/* Checks text against the row; -EINVAL says what is wrong and what is accepted. */
int option_check(const struct option *o, struct str text, struct err *e);
/* Adds a checked value. */
int option_set(struct option_values *v, const struct option *o, struct str text, const char *origin, struct err *e);
/* The last value, or the row's fallback (origin "default"), or NULL. */
const char *option_get(const struct option_values *v, const struct option *o);
bool option_get_flag(const struct option_values *v, const struct option *o);
uint64_t option_get_number(const struct option_values *v, const struct option *o); /* integer, size or duration */
bool option_given(const struct option_values *v, const struct option *o);

/* Reads argv[1..] by the tables until "--" or the first word that is no option; *ret_used counts what was read (with "--").
 * Unknown flags: -EINVAL with "did you mean". "--x=v" and "--x v" both work. */
int option_parse_args(const struct option_table *const *tables, size_t n_tables, int argc, char **argv,
                      struct option_values *v, int *ret_used, struct err *e);
/* Reads the BAILEY_* variables that the tables name. Unknown BAILEY_ variables are ignored. */
int option_parse_env(const struct option_table *const *tables, size_t n_tables, struct option_values *v, struct err *e);
