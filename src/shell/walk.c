/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over a tree: which commands could run, and in which directories (where.c). Each step takes the directories
 * from j->where and leaves there those behind it, apart for success and failure (j->failed), as && and || need it. No
 * condition is evaluated: every command may succeed and may fail. A shell of its own (subshells, substitutions, all but
 * the last part of a pipeline, the background) moves nothing outside of it. Loops are walked again while that leads to
 * new directories; a function is judged where it is defined and where it is called.
 *
 * What variables hold (variables.h) goes the same ways, and a command is judged for each value that its variables may
 * have.
 */
#include "base/cleanup.h"
#include "shell/call.h"
#include "shell/variables.h"

#include <errno.h>

static void judge_command(struct judge *j, const struct sh_command *c);

static void stand(struct judge *j, const struct sh_where *where) {
        j->where = j->failed = *where;
}

/* However it ended. */
static struct sh_where either(struct judge *j) {
        struct sh_where both = j->where;
        where_join(j, &both, &j->failed);
        return both;
}

void judge_aside(struct judge *j, const struct sh_list *list) {
        const struct sh_where where = j->where, failed = j->failed;
        struct str directory = j->directory;
        judge_list(j, list);
        j->where = where;
        j->failed = failed;
        j->directory = directory;
}

/* --- functions -----------------------------------------------------------------------------------------------------
 */

static struct sh_function *find_function(const struct judge *j, struct str name) {
        for (struct sh_function *f = j->functions; f; f = f->next)
                if (str_eq(f->name, name))
                        return f;
        return NULL;
}

static void judge_body(struct judge *j, struct sh_function *f) {
        struct str outer = j->function;
        bool in_pipe = j->in_pipe, in_background = j->in_background;

        f->active = true;
        j->function = f->name;
        j->in_pipe = j->in_background = false;
        judge_command(j, f->body);
        j->function = outer;
        j->in_pipe = in_pipe;
        j->in_background = in_background;
        f->active = false;
}

/* Its parameters are the words of the call, and its local variables end with it. */
static void call_function(struct judge *j, struct sh_function *f, const struct sh_args *args) {
        const struct sh_variable *before = j->where.variables;

        f->called = true;
        variables_set_array(j, STR("@"), args->p + 1, args->n - 1);
        variables_make_local(j, STR("@"));
        judge_body(j, f);
        j->where.variables = variables_join(j, j->where.variables, j->failed.variables);
        variables_leave_function(j, before);
}

/* Where it is defined nobody knows its parameters yet. What is forbidden whatever they are is found here; the rest
 * where it is called, or in the end when it never is. */
static void judge_function(struct judge *j, const struct sh_command *c) {
        const struct sh_where where = j->where;
        struct sh_function *f = arena_get(&j->arena, sizeof *f);
        bool permitted = j->permitted;

        if (!f) {
                judge_not_understood(j, "too long");
                return;
        }
        if (c->inner) {
                *f = (struct sh_function){ .name = c->name, .body = c->inner, .next = j->functions, .where = where };
                j->functions = f;
                j->permitted = true;
                variables_forget(j, STR("@"));
                judge_body(j, f);
                j->permitted = permitted;
        }
        stand(j, &where);
}

/* Those of this text that nothing in it calls: something else may. */
static void judge_uncalled(struct judge *j, const struct sh_function *outer) {
        const struct sh_where where = j->where, failed = j->failed;

        for (struct sh_function *f = j->functions; f && f != outer; f = f->next) {
                if (f->called || f->active)
                        continue;
                stand(j, &f->where);
                variables_forget(j, STR("@"));
                judge_body(j, f);
        }
        j->where = where;
        j->failed = failed;
}

/* --- simple commands -----------------------------------------------------------------------------------------------
 */

/* What they do, and whether they change what runs. */
static unsigned judge_assignments(struct judge *j, const struct sh_command *c) {
        static const char *const readers[] = { "read", "mapfile", "readarray", NULL };
        bool reads = c->words && word_in(c->words->raw, readers);
        unsigned inner = 0;

        for (const struct sh_assignment *a = c->assignments; a; a = a->next) {
                inner |= judge_inner_facts(j, a->index);
                inner |= judge_inner_facts(j, a->value);
                inner |= judge_inner_facts(j, a->array);
                if (!reads || !str_is(a->name, "IFS")) /* there it parts fields, not commands */
                        judge_environment(j, a->name, sh_word_to_arg(j, a->value).text);
                if (!c->words)
                        variables_assign(j, a);
        }
        return inner;
}

/* NAME=VALUE in front of a command: for the command alone, which sees it in its environment. */
static void lend_assignments(struct judge *j, const struct sh_assignment *list) {
        for (const struct sh_assignment *a = list; a; a = a->next) {
                variables_assign(j, a);
                variables_export(j, a->name);
        }
}

static bool names_shell(const struct sh_args *args) {
        if (args->n == 0)
                return false;
        struct sh_call call = { .p = args->p, .n = args->n };
        call_name(&call);
        return is_shell(call.name) || str_is(call.name, "exec");
}

/* Builtins that run in the shell itself: what they set stays set. */
static bool stays_set(struct str name) {
        static const char *const builtins[] = { "command", "builtin", "eval",   "noglob",    "trap",    "export",
                                                "declare", "typeset", "local",  "readonly",  "read",    "unset",
                                                "mapfile", "set",     "shift",  "readarray", "getopts", "source",
                                                ".",       "let",     "printf", NULL };
        return word_in(name, builtins);
}

/* What has just been called moves the shell when it ran in the shell itself: not as a program, whatever that did. */
static void settle_call(struct judge *j, const struct sh_args *args, struct str directory,
                        const struct sh_variable *before) {
        static const char *const within[] = { "command", "builtin", "eval", "noglob", "trap", NULL };
        struct str name = args->p[0].text;
        struct sh_function *f = find_function(j, name);

        j->directory = directory;
        if (!where_is_cd(name) && !word_in(name, within)) {
                where_set(&j->where, directory);
                where_set(&j->failed, directory);
        }
        if (!stays_set(name))
                j->where.variables = j->failed.variables = before;
        if (str_is(name, "trap")) /* now or later */
                where_add(j, &j->where, directory);
        if (f && !f->active)
                call_function(j, f, args);
        j->directory = directory;
}

/* The call itself, with what its assignments lend to it. */
static void judge_args(struct judge *j, const struct sh_command *c, const struct sh_args *args, unsigned inner) {
        const struct sh_variable *before = j->where.variables;
        struct str directory = j->directory;
        unsigned own = j->facts;

        lend_assignments(j, c->assignments);
        const struct sh_variable *lent = j->where.variables;
        j->facts = inner; /* the call sees what its substitutions do */
        judge_call(j, args->p, args->n);
        settle_call(j, args, directory, lent);
        if (j->where.variables == lent)
                j->where.variables = before;
        else if (c->assignments ||
                 str_is(args->p[0].text, "trap")) /* what was lent is gone, what was set may be there */
                j->where.variables = variables_join(j, before, j->where.variables);
        j->failed.variables = j->where.variables;
        j->facts |= own;
}

static void judge_simple_in(struct judge *j, const struct sh_command *c, struct str directory) {
        struct sh_args args = { 0 };
        bool plain_before = j->plain_off;

        where_set(&j->where, directory);
        j->failed = j->where;
        j->directory = directory;
        j->plain_off = false;
        j->redirects = c->redirects;
        unsigned inner = judge_assignments(j, c);
        inner |= judge_inner_facts(j, c->words);
        if (sh_words_to_args(j, c->words, &args) < 0)
                j->status = -ENOMEM;
        inner |= judge_redirects(j, c->redirects, names_shell(&args));

        if (args.n == 0 && c->words)
                judge_not_understood(j, "which program runs is known only when it runs");
        else if (args.n > 0)
                judge_args(j, c, &args, inner);
        else if (j->plain_off)
                judge_decide(j, SH_SANDBOXED, NULL);
        j->plain_off = plain_before;
}

/* In every directory, and for every value of its variables. */
static void judge_simple(struct judge *j, const struct sh_command *c) {
        const struct sh_where in = j->where;
        const struct sh_picks outer = j->picks;
        struct sh_where good = { .n = 0 }, bad = { .n = 0 };

        for (size_t i = 0; i < in.n; i++) {
                variables_begin(j);
                do {
                        j->where.variables = in.variables;
                        judge_simple_in(j, c, in.dirs[i]);
                        where_join(j, &good, &j->where);
                        where_join(j, &bad, &j->failed);
                } while (variables_next(j) && judge_goes_on(j));
        }
        j->where = good;
        j->failed = bad;
        j->picks = outer;
}

/* --- compound commands ---------------------------------------------------------------------------------------------
 */

/* if: one arm or none; each is reached when the conditions before it failed. */
static void judge_if(struct judge *j, const struct sh_arm *arms) {
        struct sh_where all = { .n = 0 }, rest = j->where;
        for (const struct sh_arm *a = arms; a; a = a->next) {
                stand(j, &rest);
                if (a->condition) {
                        judge_list(j, a->condition);
                        rest = j->failed;
                }
                if (a->body)
                        judge_list(j, a->body);
                const struct sh_where behind = either(j);
                where_join(j, &all, &behind);
        }
        where_join(j, &all, &rest);
        stand(j, &all);
}

/* case: any arm, also behind the one before it (;&), or none. */
static void judge_case(struct judge *j, const struct sh_arm *arms) {
        struct sh_where all = j->where;
        for (const struct sh_arm *a = arms; a; a = a->next) {
                stand(j, &all);
                judge_words(j, a->patterns);
                if (a->body)
                        judge_list(j, a->body);
                const struct sh_where behind = either(j);
                where_join(j, &all, &behind);
        }
        stand(j, &all);
}

/* What the variable of `for` may be. Without words: what the parameters are. */
static void bind_loop(struct judge *j, const struct sh_command *c) {
        struct sh_args values = { 0 };

        if (c->kind != SH_FOR && c->kind != SH_SELECT)
                return;
        if (!c->in_given) {
                const struct sh_value *all = variables_pick(j, STR("@"));
                if (all && all->array && all->n > 0)
                        variables_set_any(j, c->name, all->items, all->n);
                else
                        variables_set_any(j, c->name, NULL, 0);
                return;
        }
        variables_begin(j);
        do
                if (sh_words_to_args(j, c->words, &values) < 0)
                        j->status = -ENOMEM;
        while (variables_next(j) && judge_goes_on(j));
        variables_set_any(j, c->name, values.p, values.n);
}

/* Once around. */
static void judge_round(struct judge *j, const struct sh_command *c, struct sh_where *all) {
        stand(j, all);
        bind_loop(j, c);
        stand(j, &j->where);
        if (c->condition) {
                judge_list(j, c->condition);
                const struct sh_where behind = either(j);
                where_join(j, all, &behind);
                stand(j, &behind);
        }
        if (c->body)
                judge_list(j, c->body);
        const struct sh_where behind = either(j);
        where_join(j, all, &behind);
}

/* Until nothing new comes of it: no directory, and nothing that a variable may hold. */
static void judge_loop(struct judge *j, const struct sh_command *c) {
        enum { ROUNDS_KNOWN = 3, ROUNDS_MAX = 12 };
        const struct sh_picks outer = j->picks;
        struct sh_where all = j->where;

        for (unsigned round = 0; round < ROUNDS_MAX; round++) {
                const struct sh_where before = all;
                judge_round(j, c, &all);
                if (all.n == before.n && variables_same(before.variables, all.variables))
                        break;
                if (round >= ROUNDS_KNOWN)
                        all.variables = variables_widen(j, before.variables, all.variables);
        }
        stand(j, &all);
        j->picks = outer;
}

/* x=5, x++ in an expression: the variable holds a number now. */
static void forget_numbers(struct judge *j, const struct sh_word *words) {
        for (const struct sh_word *w = words; w; w = w->next)
                variables_forget_named(j, w->raw);
}

/* [[ -v 'a[$(x)]' ]] and its kin: the index of an array is expanded once more. */
static void judge_condition(struct judge *j, const struct sh_word *words) {
        for (const struct sh_word *w = words; w; w = w->next)
                if (index_runs(sh_word_to_arg(j, w).text))
                        judge_not_understood(j, "an array's index that runs a command");
}

static void judge_frame_in(struct judge *j, const struct sh_command *c, struct str directory) {
        where_set(&j->where, directory);
        j->directory = directory;
        j->plain_off = false;
        judge_words(j, c->words);
        if (c->kind == SH_CONDITION)
                judge_condition(j, c->words);
        j->facts |= judge_redirects(j, c->redirects, false);
        if (j->plain_off)
                judge_decide(j, SH_SANDBOXED, NULL);
}

/* Its words and redirections, which belong to the shell around it. */
static void judge_frame(struct judge *j, const struct sh_command *c) {
        const struct sh_where in = j->where;
        const struct sh_picks outer = j->picks;

        for (size_t i = 0; i < in.n; i++) {
                variables_begin(j);
                do
                        judge_frame_in(j, c, in.dirs[i]);
                while (variables_next(j) && judge_goes_on(j));
        }
        stand(j, &in);
        j->picks = outer;
        if (c->kind == SH_ARITHMETIC_COMMAND || c->kind == SH_FOR_ARITHMETIC)
                forget_numbers(j, c->words);
}

static void judge_compound(struct judge *j, const struct sh_command *c) {
        const struct sh_where in = j->where;
        if (c->kind == SH_FOR || c->kind == SH_SELECT)
                judge_environment(j, c->name, STR(""));
        judge_frame(j, c);
        if (c->kind == SH_IF)
                judge_if(j, c->arms);
        else if (c->kind == SH_CASE)
                judge_case(j, c->arms);
        else if (c->kind != SH_GROUP && c->kind != SH_SUBSHELL && (c->condition || c->body))
                judge_loop(j, c);
        else if (c->body)
                judge_list(j, c->body);
        if (c->inner)
                judge_command(j, c->inner);
        if (c->kind == SH_SUBSHELL || c->kind == SH_COPROC)
                stand(j, &in);
}

static void judge_command(struct judge *j, const struct sh_command *c) {
        struct str outer = j->segment;
        const struct sh_redirect *redirects = j->redirects;
        if (!judge_enter(j))
                return;
        if (c->raw.n)
                j->segment = str_trim(c->raw);
        if (c->kind == SH_SIMPLE)
                judge_simple(j, c);
        else if (c->kind == SH_FUNCTION)
                judge_function(j, c);
        else
                judge_compound(j, c);
        j->segment = outer;
        j->redirects = redirects;
        judge_leave(j);
}

/* --- pipelines and lists -------------------------------------------------------------------------------------------
 */

/* What the commands of a pipeline do together: called behind each, with what came before it. */
static void judge_together(struct judge *j, unsigned before, unsigned now) {
        if (!(before & FACT_PIPED))
                return;
        if (now & FACT_READS_PROGRAM) {
                if (before & FACT_DOWNLOADS)
                        judge_find(j, FINDING_PIPE_DOWNLOAD);
                else if (before & FACT_HISTORY)
                        judge_find(j, FINDING_HISTORY);
                else
                        judge_find(j, FINDING_PIPE_PROGRAM);
        }
        if ((before & FACT_READS_PROGRAM) && (now & FACT_NETWORK_PIPE))
                judge_find(j, FINDING_REVERSE_SHELL);
}

/* Its parts run in shells of their own; the last one does in some shells and not in others. */
static void leave_pipe(struct judge *j, const struct sh_where *in) {
        struct sh_where all = *in;
        const struct sh_where last = either(j);
        where_join(j, &all, &last);
        stand(j, &all);
}

static void judge_pipeline(struct judge *j, const struct sh_pipeline *line) {
        const struct sh_where in = j->where;
        unsigned outer_facts = j->facts, outer_pipe = j->pipe_facts, all = 0;
        bool in_pipe = j->in_pipe, in_background = j->in_background;
        struct str outer_segment = j->segment;
        bool several = line->commands && line->commands->next;
        j->in_pipe = j->in_pipe || several;
        j->in_background = j->in_background || line->join == SH_JOIN_BACKGROUND;
        for (const struct sh_command *c = line->commands; c; c = c->next) {
                j->facts = 0;
                stand(j, &in);
                /* a group that is fed by a pipe hands it on to what is inside */
                j->pipe_facts = c == line->commands ? outer_pipe : (outer_pipe | all | FACT_PIPED);
                unsigned before = j->pipe_facts;
                judge_command(j, c);
                if (several && c->raw.p) /* from the first command to this one */
                        j->segment = str_trim(
                            str_n(line->commands->raw.p, (size_t)(c->raw.p + c->raw.n - line->commands->raw.p)));
                judge_together(j, before, j->facts);
                j->segment = outer_segment;
                all |= j->facts;
        }
        if (several)
                leave_pipe(j, &in);
        if (line->negated) {
                const struct sh_where good = j->failed;
                j->failed = j->where;
                j->where = good;
        }
        j->facts = outer_facts | all;
        j->pipe_facts = outer_pipe;
        j->in_pipe = in_pipe;
        j->in_background = in_background;
}

void judge_list(struct judge *j, const struct sh_list *list) {
        struct sh_where begin = j->where, good = j->where, bad = j->where;
        enum sh_join join = SH_JOIN_SEQUENCE; /* what stands before the pipeline */
        if (!judge_enter(j))
                return;
        for (const struct sh_pipeline *p = list->pipelines; p; p = p->next) {
                if (join == SH_JOIN_AND)
                        stand(j, &good);
                else if (join == SH_JOIN_OR)
                        stand(j, &bad);
                else {
                        where_join(j, &good, &bad);
                        begin = good;
                        stand(j, &begin);
                }
                judge_pipeline(j, p);
                if (join == SH_JOIN_OR)
                        where_join(j, &good, &j->where);
                else
                        good = j->where;
                if (join == SH_JOIN_AND)
                        where_join(j, &bad, &j->failed);
                else
                        bad = j->failed;
                join = p->join;
                if (join == SH_JOIN_BACKGROUND) /* with all that is joined to it */
                        good = bad = begin;
        }
        j->where = good;
        j->failed = bad;
        judge_leave(j);
}

/* Text that a shell reads as a program: sh -c, eval, traps. */
void judge_text(struct judge *j, struct str text) {
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        struct err e = { 0 };
        struct str segment = j->segment;
        struct sh_function *functions = j->functions; /* new ones lie in this tree */
        const struct sh_redirect *redirects = j->redirects;
        if (!judge_enter(j))
                return;
        int r = sh_parse(text, &tree, &e);
        if (r < 0) {
                judge_not_understood(j, err_text(&e));
        } else {
                j->redirects = NULL;
                judge_list(j, sh_tree_list(tree));
                judge_uncalled(j, functions);
        }
        j->segment = segment;
        j->functions = functions;
        j->redirects = redirects;
        judge_leave(j);
}
