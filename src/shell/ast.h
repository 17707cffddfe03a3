/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The syntax tree of a shell program (POSIX with bash's extensions). Nothing in it was executed or expanded: it says
 * what was written. Memory belongs to the tree; strings point into the arena.
 */
#include "base/err.h"
#include "base/str.h"

struct sh_list;
struct sh_word;

enum sh_part_kind {
        SH_LITERAL,    /* text, quotes removed; `quoted` says whether it was inside any */
        SH_PARAMETER,  /* $x, ${x...}: text is the name; word is the operand, if any */
        SH_COMMAND,    /* $(...) or `...`: list */
        SH_ARITHMETIC, /* $((...)), ((...)) operand: parts inside are in `word` */
        SH_PROCESS,    /* <(...) or >(...): list */
        SH_PATTERN,    /* unquoted *, ?, [...], extglob: text as written */
        SH_BRACE,      /* unquoted brace expansion: text as written */
        SH_TILDE,      /* ~ or ~user at the start: text as written */
        SH_OPAQUE,     /* something that could not be read, inside backquotes: text as written */
};

struct sh_part {
        enum sh_part_kind kind;
        bool quoted;
        struct str text;
        struct sh_list *list;
        struct sh_word *word;
        struct sh_part *next;
};

struct sh_word {
        struct sh_part *parts; /* NULL for an empty word ('') */
        bool quoted;           /* some quoting occurred: never a reserved word */
        struct str raw;        /* as written */
        struct sh_word *next;
};

enum sh_redirect_kind {
        SH_READ,          /* < */
        SH_WRITE,         /* > >| */
        SH_APPEND,        /* >> */
        SH_READ_WRITE,    /* <> */
        SH_DUPLICATE_IN,  /* <& */
        SH_DUPLICATE_OUT, /* >& (with a number or -) */
        SH_WRITE_BOTH,    /* &> and >& with a file */
        SH_APPEND_BOTH,   /* &>> */
        SH_HERE_DOCUMENT,
        SH_HERE_STRING, /* <<< */
};

struct sh_redirect {
        enum sh_redirect_kind kind;
        int fd;                 /* -1: the operator's own */
        struct str variable;    /* {name}> */
        struct sh_word *target; /* file, number, string or here-document body */
        struct sh_redirect *next;
};

struct sh_assignment {
        struct str name;
        struct sh_word *index; /* a[index]= */
        bool append;           /* += */
        struct sh_word *value; /* NULL: empty */
        struct sh_word *array; /* =( words ); is_array tells an empty one apart */
        bool is_array;
        struct sh_assignment *next;
};

enum sh_command_kind {
        SH_SIMPLE,
        SH_SUBSHELL,
        SH_GROUP,
        SH_IF, /* arms: condition and body; the last condition may be NULL (else) */
        SH_WHILE,
        SH_UNTIL,
        SH_FOR, /* name, words (NULL with in_given false: "$@") */
        SH_FOR_ARITHMETIC,
        SH_SELECT,
        SH_CASE,
        SH_FUNCTION, /* name, body */
        SH_ARITHMETIC_COMMAND,
        SH_CONDITION, /* [[ ... ]]: the words inside */
        SH_COPROC,
};

struct sh_arm { /* of if and case */
        struct sh_list *condition;
        struct sh_word *patterns;
        struct sh_list *body;
        struct sh_arm *next;
};

struct sh_command {
        enum sh_command_kind kind;
        struct str raw; /* as written */
        struct sh_assignment *assignments;
        struct sh_word *words;
        struct sh_redirect *redirects;
        struct str name;
        bool in_given;
        struct sh_list *condition, *body;
        struct sh_arm *arms;
        struct sh_command *inner; /* function and coproc: the command */
        struct sh_command *next;  /* in a pipeline */
};

enum sh_join { SH_JOIN_END, SH_JOIN_AND, SH_JOIN_OR, SH_JOIN_SEQUENCE, SH_JOIN_BACKGROUND };

struct sh_pipeline {
        struct sh_command *commands;
        bool negated, timed;
        enum sh_join join; /* what stands behind it */
        struct sh_pipeline *next;
};

struct sh_list {
        struct sh_pipeline *pipelines; /* NULL: empty */
};

struct sh_tree;
/* -EINVAL with "line N: what" in e when it is not a valid program; -E2BIG beyond the limits (1 MiB, depth 100). */
int sh_parse(struct str source, struct sh_tree **ret, struct err *err);
const struct sh_list *sh_tree_list(const struct sh_tree *tree);
void sh_tree_free(struct sh_tree *tree);
void sh_tree_freep(struct sh_tree **sh_tree);
