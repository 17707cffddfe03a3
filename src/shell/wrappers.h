/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Programs that start other programs, as rows: which options take a value, how many operands come before the command.
 */
#include "base/str.h"

enum wrapper_flags {
        ASSIGNS = 1,  /* NAME=VALUE operands come before the command */
        JOINS = 2,    /* what follows is joined by blanks and read by a shell */
        OPTIONAL = 4, /* without a command it is an ordinary program: the rules apply */
        FEEDS = 8,    /* words from standard input are added */
        ITSELF = 16,  /* the rules apply to the program as well */
};

struct wrapper {
        const char *name;
        const char *valued; /* letters of options that take a value */
        const char *const *valued_long;
        unsigned operands; /* words before the command */
        char text_letter;  /* option whose value a shell reads, or 0 */
        const char *text_long;
        unsigned flags;
        int finding; /* enum sh_finding, or -1 */
};

/* NULL: the program is none of them. */
const struct wrapper *wrapper_find(struct str name);
