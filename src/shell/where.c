/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the shell stands. `cat shadow` is harmless or not by what came before it, and a cd may have been skipped, may
 * have failed, or may have happened in a subshell. So the walk carries every directory that the shell may stand in by
 * then, and a command is judged in each of them; the strictest verdict counts.
 *
 * Most commands begin in the workspace and stay below it. All those places are one, "": a relative path means the same
 * in each as far as the rules go. A cd that fails leaves the shell where it was, which is remembered where that matters
 * (place_is_special()) and is "" otherwise; so the number stays small without forgetting /etc. Where a cd is followed
 * by &&, the next command is judged only where it leads.
 */
#include "shell/call.h"
#include "shell/variables.h"

void where_set(struct sh_where *where, struct str directory) {
        where->dirs[0] = directory;
        where->n = 1;
}

void where_add(struct judge *judge, struct sh_where *where, struct str directory) {
        for (size_t i = 0; i < where->n; i++)
                if (str_eq(where->dirs[i], directory))
                        return;
        if (where->n < WHERE_MAX)
                where->dirs[where->n++] = directory;
        else if (place_is_special(directory))
                judge_not_understood(judge, "it could stand in too many directories");
}

static void add_all(struct judge *judge, struct sh_where *where, const struct sh_where *more) {
        for (size_t i = 0; i < more->n; i++)
                where_add(judge, where, more->dirs[i]);
}

void where_join(struct judge *judge, struct sh_where *where, const struct sh_where *more) {
        if (more->n == 0)
                return;
        if (where->n == 0)
                where->variables = more->variables;
        else
                where->variables = variables_join(judge, where->variables, more->variables);
        add_all(judge, where, more);
}

bool where_is_cd(struct str name) {
        static const char *const names[] = { "cd", "chdir", "pushd", "popd", NULL };
        return word_in(name, names);
}

/* cd -: where it was before, or where the command itself says that it was (OLDPWD=/; cd -). */
static void where_back(struct judge *judge) {
        const struct sh_variable *old = variables_find(judge, STR("OLDPWD"));

        add_all(judge, &judge->where, &judge->left);
        for (size_t i = 0; old && i < old->n; i++)
                where_add(judge, &judge->where, place_behind(&judge->arena, judge->directory, old->values[i].text));
}

/* cd: home; cd -: where it was before. What cannot be known is taken for something below, or nothing: cd "" stays. */
static void where_lead(struct judge *judge, const struct sh_call *call, const struct sh_arg *to) {
        bool push = str_is(call->name, "pushd");

        if (str_is(call->name, "popd") || (push && to && str_starts(to->text, STR("+"))))
                add_all(judge, &judge->where, &judge->pushed);
        else if (!to) {
                where_add(judge, &judge->where, STR("~"));
                if (push) /* which goes home only in zsh, and only when nothing was pushed */
                        add_all(judge, &judge->where, &judge->pushed);
        } else if (str_is(to->text, "-"))
                where_back(judge);
        else if (to->text.n == 0)
                where_add(judge, &judge->where, judge->directory);
        else {
                where_add(judge, &judge->where, place_behind(&judge->arena, judge->directory, *to));
                if (to->unknown && place_is_special(judge->directory))
                        where_add(judge, &judge->where, judge->directory);
        }
}

void where_cd(struct judge *judge, const struct sh_call *call) {
        struct str from = judge->directory;

        judge->where.n = 0;
        where_lead(judge, call, call_operand(call, 0));
        if (judge->where.n == 0)
                where_set(&judge->where, STR(""));

        where_set(&judge->failed, place_is_special(from) ? from : STR(""));
        where_add(judge, &judge->left, from);
        if (str_is(call->name, "pushd"))
                where_add(judge, &judge->pushed, from);
}
