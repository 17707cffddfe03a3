/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the classifier says about a command, with the policy's own rules. Nothing is run. */
#include "conf/option.h"
#include "verbs/inspect/inspect.h"

enum check_decision { CHECK_ALLOW, CHECK_SANDBOXED, CHECK_ESCALATED, CHECK_FORBIDDEN };

struct check_verdict {
        enum check_decision decision;
        const char *name; /* allow, sandboxed, escalated, forbidden */
        char *rule, *reason, *segment;
        char *detail; /* NULL: nothing more to say */
        bool agreed;  /* escalated, and a person has agreed to this very command before */
};
void check_verdict_done(struct check_verdict *verdict);

/* One text for a shell, or with `args` the words of a command that is run without one. */
struct check_question {
        char *const *words;
        size_t n;
        bool args;
        const char *directory; /* where it would run; NULL: here */
        bool looks_back;       /* fills in `agreed` */
};
int check_command(const struct option_values *options, const struct check_question *question, struct check_verdict *ret,
                  struct err *err);
