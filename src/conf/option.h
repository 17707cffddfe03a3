/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The option registry: one row says everything about a setting, so that the flag, the file key, the environment
 * variable, the help text, the completion and the row in the man page cannot disagree. Modules export tables; the
 * command line, the file loader and the documents read them.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum option_type {
        OPTION_FLAG, /* --x, --no-x, true/false in files */
        OPTION_STRING,
        OPTION_INTEGER,
        OPTION_SIZE,     /* 2GiB, 512M, bytes */
        OPTION_DURATION, /* 10s, 5m */
        OPTION_CHOICE,   /* one of `choices` */
        OPTION_PATH,
        OPTION_LIST,  /* repeatable strings; a sequence in files, separated by commas in variables */
        OPTION_PATHS, /* the same, each a path */
        OPTION_MAP,   /* repeatable NAME=VALUE; a mapping in files */
        OPTION_TYPES
};

/* What a file that came with the workspace may do with it before a person has trusted that file. */
enum option_trust {
        TRUST_WIDENS,       /* any value may grant something: needs trust */
        TRUST_NARROWS,      /* any value only takes away */
        TRUST_LESS_NARROWS, /* a lower number (0 is unlimited), an earlier choice, false */
        TRUST_MORE_NARROWS, /* true */
        TRUST_NEVER,        /* not even a trusted one: only the user's own files */
};

struct option {
        const char *flag; /* without dashes: "allow"; NULL: not on the command line */
        char letter;      /* short form, 0 for none */
        const char *key;  /* in files: "network.allow"; NULL: not in files */
        const char *env;  /* "BAILEY_ALLOW"; NULL: no variable */
        enum option_type type;
        const char *metavar;        /* "PATTERN" */
        int64_t min, max;           /* integers, sizes (bytes), durations (ns); both 0: unchecked */
        const char *const *choices; /* NULL-terminated; with TRUST_LESS_NARROWS the strictest first */
        const char *fallback;       /* default as text, NULL: none */
        const char *help;           /* one line, lower case, no full stop */
        enum option_trust trust;
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
void option_values_done(struct option_values *values);

/* Lists and maps may be given again and again; of the others the last one counts. */
static inline bool option_repeats(const struct option *option) {
        return option->type == OPTION_LIST || option->type == OPTION_PATHS || option->type == OPTION_MAP;
}
/* The name that people know it by: the flag, else the key, else the variable. */
const char *option_name(const struct option *option);

/* Checks text against the row; -EINVAL says what is wrong and what is accepted. */
int option_check(const struct option *option, struct str text, struct err *err);
/* Text that option_check() accepted, as a number: integer, size in bytes, duration in ns, flag as 0 or 1, place in
 * choices. */
uint64_t option_number(const struct option *option, struct str text);
/* Adds a checked value; the error starts with the origin. */
int option_set(struct option_values *values, const struct option *option, struct str text, const char *origin,
               struct err *err);
/* The last value, or the row's fallback (origin "default"), or NULL. */
const char *option_get(const struct option_values *values, const struct option *option);
bool option_get_flag(const struct option_values *values, const struct option *option);
uint64_t option_get_number(const struct option_values *values, const struct option *option);
bool option_given(const struct option_values *values, const struct option *option);
/* for (size_t i = 0; (x = option_next(v, o, &i));): every value of a repeated option, in order. */
const struct option_value *option_next(const struct option_values *values, const struct option *option, size_t *cursor);

/* Reads argv[1..] by the tables until "--" or the first word that is no option; *ret_used counts what was read (with
 * "--"). Unknown flags: -EINVAL with "did you mean". "--x=v", "--x v", "-xv" and "-x v" all work; "--no-x" for flags.
 */
int option_parse_args(const struct option_table *const *tables, size_t n_tables, int argc, char **argv,
                      struct option_values *values, int *ret_used, struct err *err);
/* Reads the BAILEY_* variables that the tables name. Unknown BAILEY_ variables and empty ones are ignored. */
int option_parse_env(const struct option_table *const *tables, size_t n_tables, struct option_values *values,
                     struct err *err);
/* The row with this flag, key or variable, or NULL. */
const struct option *option_find(const struct option_table *const *tables, size_t n_tables, struct str name);

/* "-p, --policy FILE", "--no-workspace-policy": the flag as a person types it (a flag that is on by default is shown as
 * its "no-" form). Empty for rows without a flag. */
int option_usage(struct buf *out, const struct option *option);
/* Help: title and aligned rows, wrapped at `width` columns; rows without a flag are left out. */
int option_help(struct buf *out, const struct option_table *const *tables, size_t n_tables, unsigned width);
/* The rows as man page source: a section heading per table, one tagged paragraph per row. */
int option_man(struct buf *out, const struct option_table *const *tables, size_t n_tables);
