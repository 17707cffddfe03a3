/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The command classifier: what a shell command would do, judged from its text alone. Nothing is executed, no file is
 * looked at, and the work is bounded whatever the text. The worst part of a command decides about the whole.
 *
 *     cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
 *     int r = sh_classify(rules, STR("git push && rm -rf /"), &v);
 *     v.decision == SH_FORBIDDEN, v.rule "delete-root", v.segment "rm -rf /"
 *
 * A command that was permitted still runs in the sandbox: the classifier decides who is asked, not what is possible.
 */
#include "base/err.h"
#include "base/str.h"

enum sh_decision {
        SH_ALLOW,
        SH_SANDBOXED, /* no rule matched */
        SH_ESCALATED, /* a person is asked */
        SH_FORBIDDEN,
};
const char *sh_decision_name(enum sh_decision decision); /* allow, sandboxed, escalated, forbidden */
bool sh_decision_from(const char *name, enum sh_decision *ret);

/* A rule of a user: commands that begin with these words. A word may have * and ? in it. */
struct sh_user_rule {
        const char *name, *reason; /* reason may be NULL */
        enum sh_decision decision;
        const char *const *argv;
        size_t n_argv;
        const char *const *match, *const *no_match; /* example commands */
        size_t n_match, n_no_match;
        const char *origin; /* "file:line", for errors; may be NULL */
};

/* A set of users' rules on top of the built-in ones; immutable, may be shared by threads. */
struct sh_rules;
/* Copies the rules and tries their examples: -EINVAL names the rule and the example that is wrong. */
int sh_rules_load(const struct sh_user_rule *rules, size_t n, struct sh_rules **ret, struct err *err);
void sh_rules_free(struct sh_rules *rules);
void sh_rules_freep(struct sh_rules **sh_rules);
/* Tries the examples of every built-in rule. */
int sh_rules_self_test(struct err *err);

struct sh_verdict {
        enum sh_decision decision;
        const char *rule;   /* "" when no rule matched; belongs to the rules */
        const char *reason; /* for people; belongs to the rules */
        char *segment;      /* the part of the command that decided, as written where possible */
        char *detail;       /* what was not understood, or NULL */
};
void sh_verdict_done(struct sh_verdict *verdict);

/* Where the command will run: absolute paths without links in them. What is not known is empty. `rm -rf *` is one thing
 * in a workspace and another in the home directory. */
struct sh_setting {
        struct str directory, home, workspace;
};

/* rules may be NULL: the built-in ones; setting may be NULL: nothing is known of it. 0, or -ENOMEM with an escalated
 * verdict without texts. */
int sh_classify(const struct sh_rules *rules, const struct sh_setting *setting, struct str command,
                struct sh_verdict *ret);
/* The words of one command that is run without a shell. */
int sh_classify_argv(const struct sh_rules *rules, const struct sh_setting *setting, const struct str *argv, size_t n,
                     struct sh_verdict *ret);
