/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Questions about one call, for rules: its options, operands, and the places that its arguments name. */
#include "shell/judge_internal.h"

bool word_in(struct str word, const char *const *list);
bool word_holds(struct str text, struct str token);
bool is_shell(struct str name);
bool is_interpreter(struct str name);
/* a[$(x)], where a variable's name is expected */
bool index_runs(struct str text);
/* Its name, and whether that is one of the system's, from its first word. */
void call_name(struct sh_call *call);
/* "-x" finds x alone and in a cluster (-axb); "--long" finds it whole, with =value, and abbreviated. "-name" in full
 * when the letter is followed by more. */
bool call_has_option(const struct sh_call *call, const char *option);
bool call_has_any(const struct sh_call *call, const char *const *options);
/* The i-th argument that is no option (0 is the first after the name); NULL when there is none. Behind "--" all are. */
const struct sh_arg *call_operand(const struct sh_call *call, size_t i);
bool call_has_word(const struct sh_call *call, const char *word);
/* The subcommand: the first operand, but git's and similar global options that take a value are skipped. */
struct str call_subcommand(const struct sh_call *call);
size_t call_subcommand_index(const struct sh_call *call); /* 0: none */

/* Options that have something in common: they name a file that is written, or a command that is run. */
enum sh_option_flags {
        OPTION_ALONE = 1,   /* a letter stands directly behind its dash, not in a cluster: -o, -oFILE */
        OPTION_LEADING = 2, /* behind the first operand stands another program's command line */
        OPTION_NO_VALUE = 4,
        OPTION_SILENT = 8, /* what it names is judged; that it is there means nothing */
};
struct sh_option {
        const char *const *programs;
        const char *letters;      /* may be NULL */
        const char *const *words; /* "--output" (also abbreviated), "-out"; may be NULL */
        unsigned flags;
};
/* Whether the argument at i is one of them, and its value: behind it (-oX, --output=X) or the next argument. */
bool call_option_value(const struct sh_call *call, size_t i, const struct sh_option *option, struct sh_arg *ret);
/* Where its own options end: at its first operand when flags has OPTION_LEADING, else at "--" or the end. */
size_t call_options_end(const struct sh_call *call, const struct sh_option *sh_option);

enum sh_place {
        PLACE_OTHER,
        PLACE_ROOT,      /* /, the home, a whole system directory, or everything in one */
        PLACE_SYSTEM,    /* a file that belongs to the system */
        PLACE_SHARED,    /* /usr/local, /opt, /var: the machine's, but not the system's own */
        PLACE_DISK,      /* a disk or memory device */
        PLACE_NETWORK,   /* /dev/tcp, /dev/udp */
        PLACE_PROTECTED, /* programs outside run or obey it: .git/hooks, .bashrc */
};
enum sh_place place_of(struct sh_arg arg);
/* Whether the argument names (or, as a pattern, could name) a file with secrets; also behind = and @. */
bool names_credential(struct sh_arg arg);
/* Where a cd leads, cleaned; "" for every place below or beside the one where the command began, unless it is special.
 */
struct str place_behind(struct arena *arena, struct str from, struct sh_arg to);
/* The directory in which the command begins: "" unless it is special. */
struct str place_at_start(const struct sh_setting *setting);
/* A directory in which a plain name can mean something else: the system's, a home, one with secrets, a hidden one. */
bool place_is_special(struct str directory);
/* Known to be / or ~ or the like once what is unknown is taken as empty. */
bool root_when_empty(struct sh_arg arg);
