/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside the classifier: one judgement in progress. syntax_walk.c walks the tree, value.c says what words are, unwrap.c
 * looks through programs that start others, rules.c compares a call with the tables, and classify.c holds them
 * together.
 *
 * A command holds commands, to any depth. Whoever finds one comes back through judge_call(), judge_text() and
 * judge_aside(), which are the only way back up (struct judge_again): below them every file calls downwards only.
 */
#include "base/arena.h"
#include "shell/ast.h"
#include "shell/classify.h"

/* One argument as far as it can be known. In `text`, a NUL byte stands for what only the running shell knows, and a
 * leading ~ for the home directory. */
struct sh_arg {
        struct str text;
        bool unknown;     /* has a NUL */
        bool pattern;     /* has unquoted * ? [ */
        bool fed;         /* stands for words from standard input (xargs) */
        bool process;     /* <(...): what a command prints */
        struct str under; /* the directory that it is seen from; empty: where the command began, or thereabouts */
        const struct sh_setting *setting; /* where that is; may be NULL */
};
struct sh_args {
        struct sh_arg *p;
        size_t n, cap;
};

/* One program with its arguments; p[0] is its name as given. */
struct sh_call {
        struct str name; /* without the directory */
        bool foreign;    /* called by a path that is not one of the system's directories */
        const struct sh_arg *p;
        size_t n;
        struct str segment;
        const struct sh_redirect *redirects; /* may be NULL */
        unsigned inner_facts;                /* what the substitutions in its words do */
        unsigned pipe_facts;                 /* what stands before it in its pipeline */
        bool venv;                           /* a virtual environment was activated before */
};

/* What a part of the command does, for rules about several parts together. */
enum sh_fact {
        FACT_DOWNLOADS = 1,     /* writes what the network says to its output */
        FACT_READS_PROGRAM = 2, /* runs what it reads from its input */
        FACT_NETWORK_PIPE = 4,  /* netcat and its kin */
        FACT_NAMES_ROOT = 8,    /* its words name / or the home directory */
        FACT_HISTORY = 16,
        FACT_PIPED = 32,        /* something stands before it in the pipeline */
        FACT_NAMES_SECRET = 64, /* its words name files with secrets */
        FACT_LISTS = 128,       /* prints names from a tree, or words that stand in the command */
        FACT_COMMANDS = 256,    /* prints lines that begin with !, which some programs run */
        FACT_ENVIRONMENT = 512, /* prints every variable */
};

struct sh_rule {
        const char *name;
        enum sh_decision decision;
        const char *reason;
        const char *const *programs;    /* NULL: any */
        const char *const *subcommands; /* NULL: any; the first word that is no option */
        const char *const *options;     /* NULL: any; one of them is there: "-r" (also in a cluster), "--recursive" */
        bool (*test)(const struct sh_call *call); /* NULL: always */
        const char *const *match, *const *no_match;
};
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Rules about the form of a command: found by the walk, not by a call. */
enum sh_finding {
        FINDING_NOT_UNDERSTOOD,
        FINDING_FORK_BOMB,
        FINDING_PIPE_DOWNLOAD,
        FINDING_PIPE_PROGRAM,
        FINDING_REVERSE_SHELL,
        FINDING_NETWORK_REDIRECT,
        FINDING_HISTORY,
        FINDING_REDIRECT_SYSTEM,
        FINDING_REDIRECT_PLACE,
        FINDING_REDIRECT_DISK,
        FINDING_REDIRECT_PROTECTED,
        FINDING_REDIRECT_CREDENTIAL,
        FINDING_ENVIRONMENT,
        FINDING_EVAL,
        FINDING_ELEVATE,
        FINDING_REMOTE,
        FINDING_CONFINE,
        FINDING_OUTPUT_SYSTEM,
        FINDING_OUTPUT_PLACE,
        FINDING_OPTION_RUNS,
        FINDING_CODE_DELETES_ROOT,
        FINDING_CODE_DELETES,
        FINDING_CODE_HIDDEN,
        FINDING_CODE_WRITES,
        FINDING_HIDDEN,
        FINDING_ENVIRONMENT_LEAVES,
        SH_FINDINGS
};

/* Directories, cleaned, each once. "" stands for where the command began and every place that is as plain as that. */
enum { WHERE_MAX = 8 };
struct sh_where {
        struct str dirs[WHERE_MAX];
        size_t n;
        const struct sh_variable *variables; /* what they hold there (variables.h) */
};

/* One thing that a variable may hold: text, or the items of an array. */
struct sh_value {
        struct sh_arg text;
        const struct sh_arg *items;
        size_t n;
        bool array;
};
enum { VALUES_MAX = 16 };
struct sh_variable {
        struct str name;
        struct sh_value *values; /* any of them; none: unknown */
        size_t n, cap;
        bool lost; /* more than VALUES_MAX */
        bool exported, local;
        size_t depth; /* of the chain */
        const struct sh_variable *next;
};

/* Which of their values the variables of a command have in this round. */
enum { PICKS_MAX = 6 };
struct sh_pick {
        struct str name;
        size_t at, of;
};
struct sh_picks {
        struct sh_pick p[PICKS_MAX];
        size_t n;
        unsigned rounds;
        bool unknown;
};

struct sh_function {
        struct str name;
        const struct sh_command *body;
        bool active;           /* being judged: it calls itself */
        bool called;           /* judged with the words of a call */
        struct sh_where where; /* where it was defined */
        struct sh_function *next;
};

enum { JUDGE_DEPTH_MAX = 40, JUDGE_STEPS_MAX = 20000, JUDGE_MEMORY_MAX = 8 << 20, SEGMENT_BYTES_MAX = 2000 };

struct judge;
/* The way back up; set by classify.c. */
struct judge_again {
        bool (*call)(struct judge *judge, const struct sh_arg *args, size_t n);
        void (*text)(struct judge *judge, struct str text);
        void (*aside)(struct judge *judge, const struct sh_list *list);
};

struct judge {
        const struct judge_again *again;
        const struct sh_rules *user;
        const struct sh_setting *setting; /* may be NULL */
        struct arena arena;
        unsigned depth, steps;
        int status; /* the first -ENOMEM */

        /* where the walk is */
        unsigned facts;      /* collected by the command being judged */
        unsigned pipe_facts; /* of the commands before it in the pipeline */
        bool in_pipe, in_background;
        bool venv;
        struct str directory;         /* of those in `where`, the one that is being looked at */
        struct sh_where where;        /* before a command: where the shell may stand; behind it: if it succeeded */
        struct sh_where failed;       /* behind a command: if it failed */
        struct sh_where left, pushed; /* directories that cd and pushd left: for `cd -` and popd */
        struct sh_picks picks;
        bool variables_lost; /* too many of them: all are unknown */
        struct sh_function *functions;
        bool permitted; /* a user's rule allows the call: only Forbidden counts */
        bool hidden;    /* a word is being tried as a command (hidden.c) */
        bool plain_off; /* something beside the call changes what it does: no Allow */
        struct str function;
        struct str segment; /* of the command as written */
        const struct sh_redirect *redirects;

        /* the worst so far */
        enum sh_decision decision;
        const struct sh_rule *rule;
        struct str worst_segment;
        char detail[160];

        /* for examples: did this rule match anywhere? */
        const struct sh_rule *watch;
        bool watched;
};

/* --- back up: another command was found */
/* A call whose words are known; false: too deep or too much, already reported. */
static inline bool judge_call(struct judge *judge, const struct sh_arg *args, size_t n) {
        return judge->again->call(judge, args, n);
}
/* Text that a shell reads as a program: sh -c, eval, traps. */
static inline void judge_text(struct judge *judge, struct str text) {
        judge->again->text(judge, text);
}
/* In a shell of its own: a substitution. */
static inline void judge_aside(struct judge *judge, const struct sh_list *list) {
        judge->again->aside(judge, list);
}

/* --- syntax_walk.c: what judge_text() and judge_aside() do */
void walk_text(struct judge *judge, struct str text);
void walk_aside(struct judge *judge, const struct sh_list *list);

/* --- where.c */
void where_set(struct sh_where *where, struct str directory);
void where_add(struct judge *judge, struct sh_where *where, struct str directory);
void where_join(struct judge *judge, struct sh_where *where, const struct sh_where *more);
bool where_is_cd(struct str name);
/* cd, pushd and popd: what they make of `where` and `failed`. */
void where_cd(struct judge *judge, const struct sh_call *call);

/* --- judgement.c */
/* One step deeper; false: too deep or too much, already reported. */
bool judge_enter(struct judge *judge);
void judge_leave(struct judge *judge);
/* Within the limits still. */
bool judge_goes_on(const struct judge *judge);
void judge_find(struct judge *judge, enum sh_finding finding);
void judge_not_understood(struct judge *judge, const char *why);
void judge_hit(struct judge *judge, const struct sh_rule *rule);
void judge_decide(struct judge *judge, enum sh_decision decision, const struct sh_rule *rule);
/* NAME=VALUE in front of a command, or from export: does it change what runs? */
void judge_environment(struct judge *judge, struct str name, struct str value);
/* The substitutions in these words. */
void judge_words(struct judge *judge, const struct sh_word *words);
/* The same, with what the substitutions do kept apart from what the command itself does. */
unsigned judge_inner_facts(struct judge *judge, const struct sh_word *words);
/* Text that an argument holds or a script names, seen from where the walk is. */
struct sh_arg judge_arg(const struct judge *judge, struct str text);
int sh_args_add(struct judge *judge, struct sh_args *to, struct sh_arg arg);
/* Arguments joined by blanks; what is unknown becomes a parameter. *ret_unknown says whether there was any. */
struct str sh_args_join(struct judge *judge, const struct sh_arg *args, size_t n, bool *ret_unknown);

/* --- redirects.c: returns what the substitutions in the targets do. */
unsigned judge_redirects(struct judge *judge, const struct sh_redirect *redirects, bool shell);

/* --- value.c */
/* The arguments that the words become. Reports what it finds on the way. */
int sh_words_to_args(struct judge *judge, const struct sh_word *words, struct sh_args *ret);
/* A single word that is not split: redirection targets, assignments. */
struct sh_arg sh_word_to_arg(struct judge *judge, const struct sh_word *word);

/* --- program_text.c: text that a shell will read. What is unknown in it could be anything. */
void judge_program(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n);
/* The same in this shell itself: what the text sets stays set. */
void judge_program_here(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n);

/* --- unwrap.c: true when the program only starts others, which were judged instead. */
bool unwrap(struct judge *judge, const struct sh_call *call);
/* A shell's own arguments, behind its name: -c TEXT, a script, or what stands at its input. */
void unwrap_shell(struct judge *judge, const struct sh_call *call);
/* --- runners.c: programs with a way of their own to name the command; the same meaning as unwrap(). */
bool runner(struct judge *judge, const struct sh_call *call);

/* --- outputs.c: options and operands that name a file to be written */
void judge_outputs(struct judge *judge, const struct sh_call *call);
void judge_output(struct judge *judge, struct sh_arg target);
/* --- inner.c: options that have a program start another one */
void judge_inner(struct judge *judge, const struct sh_call *call);

/* --- hidden.c */
/* Words of a program that nothing is known of, tried as commands. Of one that was understood: pipes in its words only.
 */
void judge_hidden(struct judge *judge, const struct sh_call *call, bool understood);
/* --- scripts.c: programs on the command line of sed and awk */
void judge_script(struct judge *judge, const struct sh_call *call);
/* --- code.c: programs for interpreters, on the command line or in a here-document */
void judge_code(struct judge *judge, const struct sh_call *call);
/* An interpreter's first operand, behind its options and their values: its script, or "-". NULL: there is none. */
const struct sh_arg *code_script(const struct sh_call *call);
/* Whether an option says what runs: -c CODE, -m MODULE. */
bool code_in_options(const struct sh_call *call);
/* The program itself is known only when it runs: -c "$(x)", or a script of that name. What stands behind a program that
 * is known is its data. */
bool code_is_unknown(const struct sh_call *call);

/* --- rules.c */
void rules_judge(struct judge *judge, const struct sh_call *call);
/* The strictest of the users' rules that is about the call, or NULL. */
const struct sh_rule *rules_match_user(const struct sh_rules *rules, const struct sh_call *call);
extern const struct sh_rule finding_rules[SH_FINDINGS];
struct sh_rule_table {
        const struct sh_rule *rules;
        size_t n;
};
extern const struct sh_rule_table rules_forbidden, rules_escalated, rules_git, rules_allow;
#define SH_RULE_TABLES &rules_forbidden, &rules_escalated, &rules_git, &rules_allow
/* What a user has written, without its examples; one of its rules. */
int rules_copy(const struct sh_user_rule *rules, size_t n, struct sh_rules **ret, struct err *err);
const struct sh_rule *rules_at(const struct sh_rules *rules, size_t i);
/* --- classify.c: did this rule match anywhere in the command? For examples. */
bool judge_example(const struct sh_rules *rules, const struct sh_rule *watch, struct str command);
