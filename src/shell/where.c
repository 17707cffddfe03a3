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

void where_set(struct sh_where *w, struct str directory) {
        w->dirs[0] = directory;
        w->n = 1;
}

void where_add(struct judge *j, struct sh_where *w, struct str directory) {
        for (size_t i = 0; i < w->n; i++)
                if (str_eq(w->dirs[i], directory))
                        return;
        if (w->n < WHERE_MAX)
                w->dirs[w->n++] = directory;
        else if (place_is_special(directory))
                judge_not_understood(j, "it could stand in too many directories");
}

static void add_all(struct judge *j, struct sh_where *w, const struct sh_where *more) {
        for (size_t i = 0; i < more->n; i++)
                where_add(j, w, more->dirs[i]);
}

void where_join(struct judge *j, struct sh_where *w, const struct sh_where *more) {
        if (more->n == 0)
                return;
        w->variables = w->n == 0 ? more->variables : variables_join(j, w->variables, more->variables);
        add_all(j, w, more);
}

bool where_is_cd(struct str name) {
        static const char *const names[] = { "cd", "chdir", "pushd", "popd", NULL };
        return word_in(name, names);
}

/* cd: home; cd -: where it was before. What cannot be known is taken for something below, or nothing: cd "" stays. */
static void lead(struct judge *j, const struct sh_call *c, const struct sh_arg *to) {
        bool push = str_is(c->name, "pushd");
        if (str_is(c->name, "popd") || (push && to && str_starts(to->text, STR("+"))))
                add_all(j, &j->where, &j->pushed);
        else if (!to) {
                where_add(j, &j->where, STR("~"));
                if (push) /* which goes home only in zsh, and only when nothing was pushed */
                        add_all(j, &j->where, &j->pushed);
        } else if (str_is(to->text, "-"))
                add_all(j, &j->where, &j->left);
        else if (to->text.n == 0)
                where_add(j, &j->where, j->directory);
        else {
                where_add(j, &j->where, place_behind(&j->arena, j->directory, *to));
                if (to->unknown && place_is_special(j->directory))
                        where_add(j, &j->where, j->directory);
        }
}

void where_cd(struct judge *j, const struct sh_call *c) {
        struct str from = j->directory;
        j->where.n = 0;
        lead(j, c, call_operand(c, 0));
        if (j->where.n == 0)
                where_set(&j->where, STR(""));
        where_set(&j->failed, place_is_special(from) ? from : STR(""));
        where_add(j, &j->left, from);
        if (str_is(c->name, "pushd"))
                where_add(j, &j->pushed, from);
}
