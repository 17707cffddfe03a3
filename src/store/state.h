/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What Bailey remembers beyond one run: rules that a person approved for a workspace or for good, the decisions behind
 * them, and the sandboxes that they were made in. One SQLite file in the state directory, 0600, opened only when
 * something is to be remembered or looked up. A launch does not open it: the active rules are also in the file that
 * policy/approved.h reads, written anew after each change.
 */
#include "base/err.h"
#include "policy/approved.h"

struct state; /* opaque */

/* $XDG_STATE_HOME/bailey/state.db, made when it is absent; then the rules of the file beside it are taken over, so that
 * a database that was lost or moved away loses no rule. -EBADMSG: it is damaged, and the text says what to do. */
int state_open(struct state **ret, struct err *err);
void state_close(struct state *state);
void state_closep(struct state **state);

struct state_decision {
        const char *sandbox, *workspace, *command; /* where */
        const char *kind;                          /* NULL: host; or command */
        const char *host;                          /* or pattern, or the command that was asked about */
        uint16_t port;                             /* 0: of the pattern */
        const char *answer, *scope, *by;           /* as in the control protocol */
};
int state_add_decision(struct state *state, const struct state_decision *state_decision, struct err *err);

/* A remembered rule. The same pattern in the other list, for the same place, is taken back. workspace NULL: for all. */
int state_add_rule(struct state *state, bool deny, const char *workspace, const char *pattern, struct err *err);
/* Takes back rules with this pattern in every list, those of the workspace and those for all. Returns how many. */
int state_forget_rule(struct state *state, const char *workspace, const char *pattern, struct err *err);
/* The same, and what was remembered for all stays. */
int state_forget_own_rule(struct state *state, const char *workspace, const char *pattern, struct err *err);
/* Takes back every rule and answer for this workspace. */
int state_forget_workspace(struct state *state, const char *workspace, struct err *err);
int state_rules(struct state *state, struct approved *ret, struct err *err);

/* Answers about commands that hold beyond one run: for this very command under this very rule. workspace NULL: for all.
 */
#define STATE_ANY_RULE "*" /* for a command under whichever rule */
enum state_answer { STATE_NO_ANSWER, STATE_ALLOWED, STATE_DENIED };
int state_add_command(struct state *state, bool deny, const char *workspace, const char *rule, const char *command,
                      struct err *err);
/* What holds in this workspace; a deny wins. */
int state_command(struct state *state, const char *workspace, const char *rule, const char *command,
                  enum state_answer *ret, struct err *err);
/* Takes back what was answered about this command, in this workspace and for all. Returns how many. */
int state_forget_command(struct state *state, const char *workspace, const char *command, struct err *err);

/* Decisions, newest first, at most max. Texts are valid during the call. A negative return ends it. */
typedef int state_on_decision(void *arg, uint64_t at_us, const struct state_decision *d);
int state_decisions(struct state *state, unsigned max, state_on_decision *on, void *arg, struct err *err);
