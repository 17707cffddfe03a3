/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Exit codes, all of them. A caller must be able to tell Bailey's own failure from the command's, so there are two
 * bands:
 *
 *   0 to 7      the verbs that answer a question or do a job of their own
 *   120 to 125  the verbs that hand on a command's status (run, exec, learn): the same codes plus EXIT_PASSING,
 *               followed by 126, 127 and 128+n with the meaning that a shell gives them
 *
 * Every failure of Bailey's own also writes one line to standard error that begins with "bailey: ".
 */
#include "base/err.h"

#include <stddef.h>

enum exit_code {
        EXIT_OK = 0,
        EXIT_NO = 1,          /* asked and answered: denied, not valid, not whole */
        EXIT_USAGE = 2,       /* the command line is wrong */
        EXIT_CONFIG = 3,      /* a policy or configuration file is wrong */
        EXIT_UNAVAILABLE = 4, /* this machine cannot do what was asked, or it does not exist here */
        EXIT_REFUSED = 5,     /* forbidden, not approved, or not trusted */
        EXIT_TIMEOUT = 6,
        EXIT_SYSTEM = 7, /* a system call or a part of Bailey failed */

        EXIT_ESCALATED = 10, /* bailey check, bailey exec */
        EXIT_FORBIDDEN = 20, /* the same */

        EXIT_PASSING = 118, /* added where a command's status is handed on: 120 usage ... 124 timeout, 125 system */
        EXIT_CANNOT_EXECUTE = 126,
        EXIT_NOT_FOUND = 127,
        EXIT_SIGNAL = 128, /* plus the signal's number */
};

/* What a verb that failed with this error exits with. */
int exit_of_error(const struct err *err);
/* The same of what was done to a guest, 0 or more being no failure: there an error without a kind says it by its
 * number. */
int exit_of_guest(int r, const struct err *err);
/* Of an order to a sandbox that failed. */
int exit_of_order(int r);

/* One row of the documentation: bailey(1), `bailey help exit-codes`. */
struct exit_row {
        const char *codes;
        const char *meaning;
};
extern const struct exit_row exit_rows[];
extern const size_t n_exit_rows;
