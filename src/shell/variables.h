/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the variables of the shell may hold, as far as the text of the command says so. `d=/; rm -rf "$d"` is
 * `rm -rf /`.
 *
 * A state is a chain of bindings, newest first; a binding hides older ones of the same name and never changes, so that
 * keeping a state, going back to it and sharing it cost nothing. Where two ways meet (branches, loops, a command that
 * may have been skipped), variables_join() makes a chain in which a variable may hold what it held on either way.
 *
 * A variable may hold several values. A command that uses it is judged once for each (variables_next()). Beyond the
 * limits a variable is unknown, as one that was never assigned: unknown is never taken for harmless.
 */
#include "shell/judge_internal.h"

/* NULL when nothing is known of it. */
const struct sh_variable *variables_find(const struct judge *judge, struct str name);
/* What it holds in this round of the command being judged; NULL: unknown. */
const struct sh_value *variables_pick(struct judge *judge, struct str name);

/* One of n possibilities that have no variable: which one is tried in this round; n when there are too many. */
size_t variables_choose(struct judge *judge, struct str name, size_t n);

void variables_set(struct judge *judge, struct str name, struct sh_arg value);
void variables_set_array(struct judge *judge, struct str name, const struct sh_arg *items, size_t n);
/* NAME=VALUE, NAME+=VALUE, NAME=(...), NAME[0]=...: as an assignment does it. */
void variables_assign(struct judge *judge, const struct sh_assignment *assignment);
/* One of these (for NAME in ...). */
void variables_set_any(struct judge *judge, struct str name, const struct sh_arg *values, size_t n);
void variables_forget(struct judge *judge, struct str name);
/* Every variable that an expression names, if it sets any: let, ((...)). */
void variables_forget_named(struct judge *judge, struct str expression);
/* A file that is sourced may change them all. */
void variables_forget_all(struct judge *judge);
void variables_export(struct judge *judge, struct str name);
/* declare and local inside a function. */
void variables_make_local(struct judge *judge, struct str name);

/* A program that is started sees what was exported, and nothing else. */
void variables_enter_program(struct judge *judge);
/* Behind a function: its local variables are what they were before it. */
void variables_leave_function(struct judge *judge, const struct sh_variable *before);

const struct sh_variable *variables_join(struct judge *judge, const struct sh_variable *variable,
                                         const struct sh_variable *sh_variable);

bool variables_same(const struct sh_variable *variable, const struct sh_variable *sh_variable);
/* b, in which everything that differs from a is unknown. */
const struct sh_variable *variables_widen(struct judge *judge, const struct sh_variable *variable,
                                          const struct sh_variable *sh_variable);

/* The rounds of one command: begin, then again while next says so. */
void variables_begin(struct judge *judge);
bool variables_next(struct judge *judge);
