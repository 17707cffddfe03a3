/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Questions about one call, for rules: its options, operands, and the places that its arguments name. */
#include "shell/judge.h"

bool word_in(struct str word, const char *const *list);
/* "-x" finds x alone and in a cluster (-axb); "--long" finds it whole, with =value, and abbreviated. "-name" in full
 * when the letter is followed by more. */
bool call_has_option(const struct sh_call *c, const char *option);
bool call_has_any(const struct sh_call *c, const char *const *options);
/* The i-th argument that is no option (0 is the first after the name); NULL when there is none. Behind "--" all are. */
const struct sh_arg *call_operand(const struct sh_call *c, size_t i);
bool call_has_word(const struct sh_call *c, const char *word);
/* The subcommand: the first operand, but git's and similar global options that take a value are skipped. */
struct str call_subcommand(const struct sh_call *c);
size_t call_subcommand_index(const struct sh_call *c); /* 0: none */

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
/* Known to be / or ~ or the like once what is unknown is taken as empty. */
bool root_when_empty(struct sh_arg arg);
