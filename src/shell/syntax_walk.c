/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over a tree: which commands could run, and in which directories (where.c). Each step takes the directories
 * from j->where and leaves there those behind it, apart for success and failure (j->failed), as && and || need it. No
 * condition is evaluated: every command may succeed and may fail. A shell of its own (subshells, substitutions, all but
 * the last part of a pipeline, the background) moves nothing outside it. Loops are walked again while that leads to
 * new directories; a function is judged where it is defined and where it is called.
 *
 * What variables hold (variables.h) goes the same ways, and a command is judged for each value that its variables may
 * have.
 */
#include "base/cleanup.h"
#include "shell/call.h"
#include "shell/variables.h"

#include <errno.h>

static void judge_command(struct judge *judge, const struct sh_command *command);
static void judge_list(struct judge *judge, const struct sh_list *list);

static void walk_stand(struct judge *judge, const struct sh_where *where) {
        judge->where = judge->failed = *where;
}

/* However it ended. */
static struct sh_where walk_either(struct judge *judge) {
        struct sh_where both = judge->where;
        where_join(judge, &both, &judge->failed);
        return both;
}

void walk_aside(struct judge *judge, const struct sh_list *list) {
        const struct sh_where where = judge->where, failed = judge->failed;
        struct str directory = judge->directory;
        judge_list(judge, list);
        judge->where = where;
        judge->failed = failed;
        judge->directory = directory;
}

/* --- functions -----------------------------------------------------------------------------------------------------
 */

static struct sh_function *find_function(const struct judge *judge, struct str name) {
        for (struct sh_function *function = judge->functions; function; function = function->next)
                if (str_eq(function->name, name))
                        return function;
        return NULL;
}

static void judge_body(struct judge *judge, struct sh_function *function) {
        struct str outer = judge->function;
        bool in_pipe = judge->in_pipe, in_background = judge->in_background;

        function->active = true;
        judge->function = function->name;
        judge->in_pipe = judge->in_background = false;
        judge_command(judge, function->body);
        judge->function = outer;
        judge->in_pipe = in_pipe;
        judge->in_background = in_background;
        function->active = false;
}

/* Its parameters are the words of the call, and its local variables end with it. */
static void call_function(struct judge *judge, struct sh_function *function, const struct sh_args *args) {
        const struct sh_variable *before = judge->where.variables;

        function->called = true;
        variables_set_array(judge, STR("@"), args->p + 1, args->n - 1);
        variables_make_local(judge, STR("@"));
        judge_body(judge, function);
        judge->where.variables = variables_join(judge, judge->where.variables, judge->failed.variables);
        variables_leave_function(judge, before);
}

/* Where it is defined nobody knows its parameters yet. What is forbidden whatever they are is found here; the rest
 * where it is called, or in the end when it never is. */
static void judge_function(struct judge *judge, const struct sh_command *command) {
        const struct sh_where where = judge->where;
        struct sh_function *function = arena_get(&judge->arena, sizeof *function);
        bool permitted = judge->permitted;

        if (!function) {
                judge_not_understood(judge, "too long");
                return;
        }

        if (command->inner) {
                *function = (struct sh_function){
                        .name = command->name, .body = command->inner, .next = judge->functions, .where = where
                };
                judge->functions = function;
                judge->permitted = true;
                variables_forget(judge, STR("@"));
                judge_body(judge, function);
                judge->permitted = permitted;
        }

        walk_stand(judge, &where);
}

/* Those of this text that nothing in it calls: something else may. */
static void judge_uncalled(struct judge *judge, const struct sh_function *outer) {
        const struct sh_where where = judge->where, failed = judge->failed;

        for (struct sh_function *function = judge->functions; function && function != outer;
             function = function->next) {
                if (function->called || function->active)
                        continue;

                walk_stand(judge, &function->where);
                variables_forget(judge, STR("@"));
                judge_body(judge, function);
        }

        judge->where = where;
        judge->failed = failed;
}

/* --- simple commands -----------------------------------------------------------------------------------------------
 */

/* What they do, and whether they change what runs. */
static unsigned judge_assignments(struct judge *judge, const struct sh_command *command) {
        static const char *const readers[] = { "read", "mapfile", "readarray", NULL };
        bool reads = command->words && word_in(command->words->raw, readers);
        unsigned inner = 0;

        for (const struct sh_assignment *assignment = command->assignments; assignment; assignment = assignment->next) {
                inner |= judge_inner_facts(judge, assignment->index);
                inner |= judge_inner_facts(judge, assignment->value);
                inner |= judge_inner_facts(judge, assignment->array);

                if (!reads || !str_is(assignment->name, "IFS")) /* there it parts fields, not commands */
                        judge_environment(judge, assignment->name, sh_word_to_arg(judge, assignment->value).text);
                if (!command->words)
                        variables_assign(judge, assignment);
        }

        return inner;
}

/* NAME=VALUE in front of a command: for the command alone, which sees it in its environment. */
static void lend_assignments(struct judge *judge, const struct sh_assignment *list) {
        for (const struct sh_assignment *assignment = list; assignment; assignment = assignment->next) {
                variables_assign(judge, assignment);
                variables_export(judge, assignment->name);
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
static void settle_call(struct judge *judge, const struct sh_args *args, struct str directory,
                        const struct sh_variable *before) {
        static const char *const within[] = { "command", "builtin", "eval", "noglob", "trap", NULL };
        struct str name = args->p[0].text;
        struct sh_function *function = find_function(judge, name);

        judge->directory = directory;

        if (!where_is_cd(name) && !word_in(name, within)) {
                where_set(&judge->where, directory);
                where_set(&judge->failed, directory);
        }

        if (!stays_set(name))
                judge->where.variables = judge->failed.variables = before;
        if (str_is(name, "trap")) /* now or later */
                where_add(judge, &judge->where, directory);
        if (function && !function->active)
                call_function(judge, function, args);

        judge->directory = directory;
}

/* The call itself, with what its assignments lend to it. */
static void judge_args(struct judge *judge, const struct sh_command *command, const struct sh_args *args,
                       unsigned inner) {
        const struct sh_variable *before = judge->where.variables;
        struct str directory = judge->directory;
        unsigned own = judge->facts;

        lend_assignments(judge, command->assignments);
        const struct sh_variable *lent = judge->where.variables;
        judge->facts = inner; /* the call sees what its substitutions do */
        judge_call(judge, args->p, args->n);
        settle_call(judge, args, directory, lent);

        if (judge->where.variables == lent)
                judge->where.variables = before;
        else if (command->assignments ||
                 str_is(args->p[0].text, "trap")) /* what was lent is gone, what was set may be there */
                judge->where.variables = variables_join(judge, before, judge->where.variables);

        judge->failed.variables = judge->where.variables;
        judge->facts |= own;
}

static void judge_simple_in(struct judge *judge, const struct sh_command *command, struct str directory) {
        struct sh_args args = { 0 };
        bool plain_before = judge->plain_off;

        where_set(&judge->where, directory);
        judge->failed = judge->where;
        judge->directory = directory;
        judge->plain_off = false;
        judge->redirects = command->redirects;

        unsigned inner = judge_assignments(judge, command);
        inner |= judge_inner_facts(judge, command->words);
        if (sh_words_to_args(judge, command->words, &args) < 0)
                judge->status = -ENOMEM;

        inner |= judge_redirects(judge, command->redirects, names_shell(&args));

        if (args.n == 0 && command->words)
                judge_not_understood(judge, "which program runs is known only when it runs");
        else if (args.n > 0)
                judge_args(judge, command, &args, inner);
        else if (judge->plain_off)
                judge_decide(judge, SH_SANDBOXED, NULL);

        judge->plain_off = plain_before;
}

/* In every directory, and for every value of its variables. */
static void judge_simple(struct judge *judge, const struct sh_command *command) {
        const struct sh_where in = judge->where;
        const struct sh_picks outer = judge->picks;
        struct sh_where good = { .n = 0 }, bad = { .n = 0 };

        for (size_t i = 0; i < in.n; i++) {
                variables_begin(judge);

                do {
                        judge->where.variables = in.variables;
                        judge_simple_in(judge, command, in.dirs[i]);
                        where_join(judge, &good, &judge->where);
                        where_join(judge, &bad, &judge->failed);
                } while (variables_next(judge) && judge_goes_on(judge));
        }

        judge->where = good;
        judge->failed = bad;
        judge->picks = outer;
}

/* --- compound commands ---------------------------------------------------------------------------------------------
 */

/* if: one arm or none; each is reached when the conditions before it failed. */
static void judge_if(struct judge *judge, const struct sh_arm *arms) {
        struct sh_where all = { .n = 0 }, rest = judge->where;

        for (const struct sh_arm *arm = arms; arm; arm = arm->next) {
                walk_stand(judge, &rest);

                if (arm->condition) {
                        judge_list(judge, arm->condition);
                        rest = judge->failed;
                }

                if (arm->body)
                        judge_list(judge, arm->body);

                const struct sh_where behind = walk_either(judge);
                where_join(judge, &all, &behind);
        }

        where_join(judge, &all, &rest);
        walk_stand(judge, &all);
}

/* case: any arm, also behind the one before it (;&), or none. */
static void judge_case(struct judge *judge, const struct sh_arm *arms) {
        struct sh_where all = judge->where;

        for (const struct sh_arm *arm = arms; arm; arm = arm->next) {
                walk_stand(judge, &all);
                judge_words(judge, arm->patterns);
                if (arm->body)
                        judge_list(judge, arm->body);

                const struct sh_where behind = walk_either(judge);
                where_join(judge, &all, &behind);
        }

        walk_stand(judge, &all);
}

/* What the variable of `for` may be. Without words: what the parameters are. */
static void bind_loop(struct judge *judge, const struct sh_command *command) {
        struct sh_args values = { 0 };

        if (command->kind != SH_FOR && command->kind != SH_SELECT)
                return;

        if (!command->in_given) {
                const struct sh_value *all = variables_pick(judge, STR("@"));
                if (all && all->array && all->n > 0)
                        variables_set_any(judge, command->name, all->items, all->n);
                else
                        variables_set_any(judge, command->name, NULL, 0);

                return;
        }

        variables_begin(judge);

        do
                if (sh_words_to_args(judge, command->words, &values) < 0)
                        judge->status = -ENOMEM;
        while (variables_next(judge) && judge_goes_on(judge));

        variables_set_any(judge, command->name, values.p, values.n);
}

/* Once around. */
static void judge_round(struct judge *judge, const struct sh_command *command, struct sh_where *all) {
        walk_stand(judge, all);
        bind_loop(judge, command);
        walk_stand(judge, &judge->where);

        if (command->condition) {
                judge_list(judge, command->condition);
                const struct sh_where behind = walk_either(judge);
                where_join(judge, all, &behind);
                walk_stand(judge, &behind);
        }

        if (command->body)
                judge_list(judge, command->body);

        const struct sh_where behind = walk_either(judge);
        where_join(judge, all, &behind);
}

/* Until nothing new comes of it: no directory, and nothing that a variable may hold. */
static void judge_loop(struct judge *judge, const struct sh_command *command) {
        enum { ROUNDS_KNOWN = 3, ROUNDS_MAX = 12 };
        const struct sh_picks outer = judge->picks;
        struct sh_where all = judge->where;

        for (unsigned round = 0; round < ROUNDS_MAX; round++) {
                const struct sh_where before = all;

                judge_round(judge, command, &all);
                if (all.n == before.n && variables_same(before.variables, all.variables))
                        break;
                if (round >= ROUNDS_KNOWN)
                        all.variables = variables_widen(judge, before.variables, all.variables);
        }

        walk_stand(judge, &all);
        judge->picks = outer;
}

/* x=5, x++ in an expression: the variable holds a number now. */
static void forget_numbers(struct judge *judge, const struct sh_word *words) {
        for (const struct sh_word *word = words; word; word = word->next)
                variables_forget_named(judge, word->raw);
}

/* [[ -v 'a[$(x)]' ]] and its kin: the index of an array is expanded once more. */
static void judge_condition(struct judge *judge, const struct sh_word *words) {
        for (const struct sh_word *word = words; word; word = word->next)
                if (index_runs(sh_word_to_arg(judge, word).text))
                        judge_not_understood(judge, "an array's index that runs a command");
}

static void judge_frame_in(struct judge *judge, const struct sh_command *command, struct str directory) {
        where_set(&judge->where, directory);
        judge->directory = directory;
        judge->plain_off = false;
        judge_words(judge, command->words);

        if (command->kind == SH_CONDITION)
                judge_condition(judge, command->words);

        judge->facts |= judge_redirects(judge, command->redirects, false);
        if (judge->plain_off)
                judge_decide(judge, SH_SANDBOXED, NULL);
}

/* Its words and redirections, which belong to the shell around it. */
static void judge_frame(struct judge *judge, const struct sh_command *command) {
        const struct sh_where in = judge->where;
        const struct sh_picks outer = judge->picks;

        for (size_t i = 0; i < in.n; i++) {
                variables_begin(judge);

                do
                        judge_frame_in(judge, command, in.dirs[i]);
                while (variables_next(judge) && judge_goes_on(judge));
        }

        walk_stand(judge, &in);
        judge->picks = outer;
        if (command->kind == SH_ARITHMETIC_COMMAND || command->kind == SH_FOR_ARITHMETIC)
                forget_numbers(judge, command->words);
}

static void judge_compound(struct judge *judge, const struct sh_command *command) {
        const struct sh_where in = judge->where;

        if (command->kind == SH_FOR || command->kind == SH_SELECT)
                judge_environment(judge, command->name, STR(""));

        judge_frame(judge, command);

        if (command->kind == SH_IF)
                judge_if(judge, command->arms);
        else if (command->kind == SH_CASE)
                judge_case(judge, command->arms);
        else if (command->kind != SH_GROUP && command->kind != SH_SUBSHELL && (command->condition || command->body))
                judge_loop(judge, command);
        else if (command->body)
                judge_list(judge, command->body);

        if (command->inner)
                judge_command(judge, command->inner);
        if (command->kind == SH_SUBSHELL || command->kind == SH_COPROC)
                walk_stand(judge, &in);
}

static void judge_command(struct judge *judge, const struct sh_command *command) {
        struct str outer = judge->segment;
        const struct sh_redirect *redirects = judge->redirects;

        if (!judge_enter(judge))
                return;
        if (command->raw.n)
                judge->segment = str_trim(command->raw);

        if (command->kind == SH_SIMPLE)
                judge_simple(judge, command);
        else if (command->kind == SH_FUNCTION)
                judge_function(judge, command);
        else
                judge_compound(judge, command);

        judge->segment = outer;
        judge->redirects = redirects;
        judge_leave(judge);
}

/* --- pipelines and lists -------------------------------------------------------------------------------------------
 */

/* What the commands of a pipeline do together: called behind each, with what came before it. */
static void judge_together(struct judge *judge, unsigned before, unsigned now) {
        if (!(before & FACT_PIPED))
                return;

        if (now & FACT_READS_PROGRAM) {
                if (before & FACT_DOWNLOADS)
                        judge_find(judge, FINDING_PIPE_DOWNLOAD);
                else if (before & FACT_HISTORY)
                        judge_find(judge, FINDING_HISTORY);
                else
                        judge_find(judge, FINDING_PIPE_PROGRAM);
        }

        if ((before & FACT_READS_PROGRAM) && (now & FACT_NETWORK_PIPE))
                judge_find(judge, FINDING_REVERSE_SHELL);
}

/* Its parts run in shells of their own; the last one does in some shells and not in others. */
static void leave_pipe(struct judge *judge, const struct sh_where *in) {
        struct sh_where all = *in;
        const struct sh_where last = walk_either(judge);
        where_join(judge, &all, &last);
        walk_stand(judge, &all);
}

static void judge_pipeline(struct judge *judge, const struct sh_pipeline *line) {
        const struct sh_where in = judge->where;
        unsigned outer_facts = judge->facts, outer_pipe = judge->pipe_facts, all = 0;
        bool in_pipe = judge->in_pipe, in_background = judge->in_background;
        struct str outer_segment = judge->segment;
        bool several = line->commands && line->commands->next;

        judge->in_pipe = judge->in_pipe || several;
        judge->in_background = judge->in_background || line->join == SH_JOIN_BACKGROUND;

        for (const struct sh_command *command = line->commands; command; command = command->next) {
                judge->facts = 0;
                walk_stand(judge, &in);

                /* a group that is fed by a pipe hands it on to what is inside */
                judge->pipe_facts = command == line->commands ? outer_pipe : (outer_pipe | all | FACT_PIPED);
                unsigned before = judge->pipe_facts;
                judge_command(judge, command);

                if (several && command->raw.p) /* from the first command to this one */
                        judge->segment = str_trim(str_n(
                            line->commands->raw.p, (size_t)(command->raw.p + command->raw.n - line->commands->raw.p)));

                judge_together(judge, before, judge->facts);
                judge->segment = outer_segment;
                all |= judge->facts;
        }

        if (several)
                leave_pipe(judge, &in);

        if (line->negated) {
                const struct sh_where good = judge->failed;

                judge->failed = judge->where;
                judge->where = good;
        }

        judge->facts = outer_facts | all;
        judge->pipe_facts = outer_pipe;
        judge->in_pipe = in_pipe;
        judge->in_background = in_background;
}

static void judge_list(struct judge *judge, const struct sh_list *list) {
        struct sh_where begin = judge->where, good = judge->where, bad = judge->where;
        enum sh_join join = SH_JOIN_SEQUENCE; /* what stands before the pipeline */

        if (!judge_enter(judge))
                return;

        for (const struct sh_pipeline *pipeline = list->pipelines; pipeline; pipeline = pipeline->next) {
                if (join == SH_JOIN_AND)
                        walk_stand(judge, &good);
                else if (join == SH_JOIN_OR)
                        walk_stand(judge, &bad);
                else {
                        where_join(judge, &good, &bad);
                        begin = good;
                        walk_stand(judge, &begin);
                }

                judge_pipeline(judge, pipeline);

                if (join == SH_JOIN_OR)
                        where_join(judge, &good, &judge->where);
                else
                        good = judge->where;

                if (join == SH_JOIN_AND)
                        where_join(judge, &bad, &judge->failed);
                else
                        bad = judge->failed;

                join = pipeline->join;
                if (join == SH_JOIN_BACKGROUND) /* with all that is joined to it */
                        good = bad = begin;
        }

        judge->where = good;
        judge->failed = bad;
        judge_leave(judge);
}

/* Text that a shell reads as a program: sh -c, eval, traps. */
void walk_text(struct judge *judge, struct str text) {
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        struct err err = { 0 };
        struct str segment = judge->segment;
        struct sh_function *functions = judge->functions; /* new ones lie in this tree */
        const struct sh_redirect *redirects = judge->redirects;

        if (!judge_enter(judge))
                return;

        int r = sh_parse(text, &tree, &err);
        if (r < 0) {
                judge_not_understood(judge, err_text(&err));
        } else {
                judge->redirects = NULL;
                judge_list(judge, sh_tree_list(tree));
                judge_uncalled(judge, functions);
        }

        judge->segment = segment;
        judge->functions = functions;
        judge->redirects = redirects;
        judge_leave(judge);
}
