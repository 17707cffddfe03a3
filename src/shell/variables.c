/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/variables.h"
#include "shell/call.h"

#include "base/buf.h"
#include "base/cleanup.h"

/* Beyond these a variable is unknown. */
enum { BINDINGS_MAX = 400, VALUE_BYTES_MAX = 4096, ROUNDS_MAX = 32, ITEMS_MAX = 64 };

/* --- looking up --------------------------------------------------------------------------------------------------- */

static const struct sh_variable *chain_find(const struct sh_variable *chain, struct str name) {
        for (; chain; chain = chain->next)
                if (str_eq(chain->name, name))
                        return chain;
        return NULL;
}

const struct sh_variable *variables_find(const struct judge *judge, struct str name) {
        return judge->variables_lost ? NULL : chain_find(judge->where.variables, name);
}

/* One digit of the counter over all combinations of values: the variable's own, or a new one. */
static struct sh_pick *pick_of(struct judge *judge, struct str name, size_t of) {
        struct sh_picks *picks = &judge->picks;

        for (size_t i = 0; i < picks->n; i++)
                if (str_eq(picks->p[i].name, name))
                        return &picks->p[i];

        if (picks->n == PICKS_MAX)
                return NULL;

        name = arena_copy(&judge->arena, name); /* it may stand in a tree that goes away first: {${x-y},z} */
        if (!name.p)
                return NULL;

        picks->p[picks->n] = (struct sh_pick){ .name = name, .of = of };
        return &picks->p[picks->n++];
}

const struct sh_value *variables_pick(struct judge *judge, struct str name) {
        const struct sh_variable *variable = variables_find(judge, name);
        const struct sh_pick *pick;

        if (!variable || variable->n == 0)
                return NULL;
        if (variable->n == 1)
                return &variable->values[0];
        if (judge->picks.unknown)
                return NULL;

        pick = pick_of(judge, variable->name, variable->n);
        return pick && pick->at < variable->n ? &variable->values[pick->at] : NULL;
}

size_t variables_choose(struct judge *judge, struct str name, size_t n) {
        const struct sh_pick *pick = judge->picks.unknown ? NULL : pick_of(judge, name, n);
        return pick ? pick->at : n;
}

void variables_begin(struct judge *judge) {
        judge->picks = (struct sh_picks){ .n = 0 };
}

bool variables_next(struct judge *judge) {
        struct sh_picks *picks = &judge->picks;

        if (picks->unknown)
                return false;

        if (++picks->rounds >= ROUNDS_MAX) { /* too many to try them all: once more, with none of them known */
                picks->unknown = true;
                return true;
        }

        for (size_t i = 0; i < picks->n; i++) {
                if (++picks->p[i].at < picks->p[i].of)
                        return true;
                picks->p[i].at = 0;
        }

        return false;
}

/* --- binding ------------------------------------------------------------------------------------------------------ */

static struct sh_variable *bind_new(struct judge *judge, const struct sh_variable **chain, struct str name) {
        struct sh_variable *variable;

        if (*chain && (*chain)->depth >= BINDINGS_MAX) {
                *chain = NULL; /* nothing is known from here on */
                judge->variables_lost = true;
        }

        if (judge->variables_lost)
                return NULL;

        variable = arena_get(&judge->arena, sizeof *variable);
        if (!variable) {
                judge_not_understood(judge, "too long");
                return NULL;
        }

        *variable = (struct sh_variable){ .next = *chain, .depth = *chain ? (*chain)->depth + 1 : 1 };
        variable->name = arena_copy(&judge->arena, name); /* the tree that it stands in may go away first */
        if (!variable->name.p)
                return NULL;

        *chain = variable;
        return variable;
}

static bool same_text(const struct sh_arg *arg, const struct sh_arg *sh_arg) {
        return arg->pattern == sh_arg->pattern && str_eq(arg->text, sh_arg->text);
}

static bool same_value(const struct sh_value *value, const struct sh_value *sh_value) {
        if (value->array != sh_value->array || value->n != sh_value->n)
                return false;
        if (!value->array)
                return same_text(&value->text, &sh_value->text);

        for (size_t i = 0; i < value->n; i++)
                if (!same_text(&value->items[i], &sh_value->items[i]))
                        return false;

        return true;
}

/* Room for one more. */
static bool values_grow(struct judge *judge, struct sh_variable *variable) {
        size_t cap = variable->n ? 2 * variable->n : 1;
        struct sh_value *values;

        if (variable->n < variable->cap)
                return true;

        values = variable->n < VALUES_MAX ? arena_get(&judge->arena, cap * sizeof *values) : NULL;
        if (!values)
                return false;
        if (variable->n > 0)
                memcpy(values, variable->values, variable->n * sizeof *values);

        variable->values = values;
        variable->cap = cap;

        return true;
}

static void value_add(struct judge *judge, struct sh_variable *variable, struct sh_value value) {
        if (variable->lost)
                return;

        for (size_t i = 0; i < variable->n; i++)
                if (same_value(&variable->values[i], &value))
                        return;

        if (!values_grow(judge, variable)) { /* too many: all that is known of it is that it is set */
                variable->n = 0;
                variable->lost = true;
                return;
        }

        variable->values[variable->n++] = value;
}

static void value_copy(struct sh_variable *to, const struct sh_variable *from) {
        to->values = from->values;
        to->n = from->n;
        to->cap = from->n; /* shared: growing makes a copy */
        to->lost = from->lost;
}

static struct sh_value value_unknown(void) {
        return (struct sh_value){ .text = { .text = str_n("", 1), .unknown = true } };
}

/* As the value of a variable: without the place that it was seen from. */
static struct sh_value value_of(struct judge *judge, struct sh_arg arg) {
        struct sh_value value = { .text = { .unknown = arg.unknown, .pattern = arg.pattern } };

        if (arg.text.n > VALUE_BYTES_MAX || arg.process || arg.fed)
                return value_unknown();
        value.text.text = arena_copy(&judge->arena, arg.text);
        if (value.text.text.p)
                return value;

        return value_unknown();
}

/* a[$(x)] as text, where it stands in a variable: it runs as soon as somebody reads it as a number. */
static bool runs_as_number(struct str text) {
        for (size_t i = 1; i < text.n; i++)
                if (text.p[i] == '[' && (ascii_is_alnum(text.p[i - 1]) || text.p[i - 1] == '_') &&
                    index_runs(str_skip(text, i)))
                        return true;
        return false;
}

static struct sh_variable *bind_next(struct judge *judge, struct str name) {
        const struct sh_variable *before = variables_find(judge, name);
        struct sh_variable *variable = bind_new(judge, &judge->where.variables, name);

        if (variable && before) {
                variable->exported = before->exported;
                variable->local = before->local;
        }

        return variable;
}

/* Both ends of a command see what it set: an assignment does not fail. */
static void variables_settle(struct judge *judge) {
        judge->failed.variables = judge->where.variables;
}

void variables_set(struct judge *judge, struct str name, struct sh_arg value) {
        struct sh_variable *variable = bind_next(judge, name);

        if (runs_as_number(value.text))
                judge_not_understood(judge, "a value that runs a command when it is read as a number");
        if (variable)
                value_add(judge, variable, value_of(judge, value));
        variables_settle(judge);
}

void variables_set_array(struct judge *judge, struct str name, const struct sh_arg *items, size_t n) {
        struct sh_variable *variable = bind_next(judge, name);
        struct sh_value value = { .array = true, .n = n };

        variables_settle(judge);
        if (!variable || n > ITEMS_MAX)
                return;

        if (n > 0) {
                struct sh_arg *copies = arena_get(&judge->arena, n * sizeof *copies);
                if (!copies)
                        return;

                for (size_t i = 0; i < n; i++)
                        copies[i] = value_of(judge, items[i]).text;

                value.items = copies;
        }

        value_add(judge, variable, value);
}

void variables_set_any(struct judge *judge, struct str name, const struct sh_arg *values, size_t n) {
        struct sh_variable *variable = bind_next(judge, name);

        for (size_t i = 0; variable && i < n; i++)
                value_add(judge, variable, value_of(judge, values[i]));
        variables_settle(judge);
}

void variables_forget(struct judge *judge, struct str name) {
        if (variables_find(judge, name))
                (void)bind_next(judge, name);
        variables_settle(judge);
}

void variables_forget_named(struct judge *judge, struct str expression) {
        if (str_find(expression, '=') < 0 && str_find(expression, '+') < 0 && str_find(expression, '-') < 0)
                return;

        for (size_t i = 0, n; i < expression.n; i += n) {
                n = 0;
                while (i + n < expression.n && (ascii_is_alnum(expression.p[i + n]) || expression.p[i + n] == '_'))
                        n++;
                if (n > 0)
                        variables_forget(judge, str_n(expression.p + i, n));
                else
                        n = 1;
        }
}

void variables_forget_all(struct judge *judge) {
        judge->where.variables = NULL;
        variables_settle(judge);
}

/* --- assignments -------------------------------------------------------------------------------------------------- */

static struct sh_arg variables_joined(struct judge *judge, struct sh_arg arg, struct sh_arg sh_arg) {
        cleanup(buf_done) struct buf text = BUF(2 * VALUE_BYTES_MAX);
        struct sh_arg both = { .unknown = arg.unknown || sh_arg.unknown, .pattern = arg.pattern || sh_arg.pattern };

        if (buf_append(&text, arg.text) < 0 || buf_append(&text, sh_arg.text) < 0)
                return value_unknown().text;
        both.text = arena_copy(&judge->arena, buf_str(&text));
        if (both.text.p)
                return both;

        return value_unknown().text;
}

/* NAME+=(...): behind what is there, if that is known. */
static void append_items(struct judge *judge, struct str name, const struct sh_args *more) {
        const struct sh_value *before = variables_pick(judge, name);
        struct sh_args all = { 0 };

        if (!before) {
                variables_forget(judge, name);
                return;
        }

        if (!before->array && sh_args_add(judge, &all, before->text) < 0)
                return;

        for (size_t i = 0; before->array && i < before->n; i++)
                if (sh_args_add(judge, &all, before->items[i]) < 0)
                        return;

        for (size_t i = 0; i < more->n; i++)
                if (sh_args_add(judge, &all, more->p[i]) < 0)
                        return;

        variables_set_array(judge, name, all.p, all.n);
}

static void assign_array(struct judge *judge, const struct sh_assignment *assignment) {
        struct sh_args items = { 0 };

        if (sh_words_to_args(judge, assignment->array, &items) < 0)
                return;

        for (size_t i = 0; i < items.n; i++)
                if (items.p[i].text.n && items.p[i].text.p[0] == '[') { /* [key]=value */
                        variables_forget(judge, assignment->name);
                        return;
                }

        if (assignment->append)
                append_items(judge, assignment->name, &items);
        else
                variables_set_array(judge, assignment->name, items.p, items.n);
}

/* NAME[2]=VALUE: in the array that is known, or a new one at its first place. */
static void assign_item(struct judge *judge, const struct sh_assignment *assignment) {
        const struct sh_value *before = variables_pick(judge, assignment->name);
        struct sh_arg index = sh_word_to_arg(judge, assignment->index),
                      value = sh_word_to_arg(judge, assignment->value);
        struct sh_args items = { 0 };
        uint64_t at;

        for (size_t i = 0; before && before->array && i < before->n; i++)
                if (sh_args_add(judge, &items, before->items[i]) < 0)
                        return;

        if (index.unknown || !str_to_u64(index.text, ITEMS_MAX, &at) || at > items.n || assignment->append) {
                variables_forget(judge, assignment->name);
                return;
        }

        if (at < items.n)
                items.p[at] = value;
        else if (sh_args_add(judge, &items, value) < 0)
                return;

        variables_set_array(judge, assignment->name, items.p, items.n);
}

void variables_assign(struct judge *judge, const struct sh_assignment *assignment) {
        if (assignment->is_array) {
                assign_array(judge, assignment);
                return;
        }

        if (assignment->index) {
                assign_item(judge, assignment);
                return;
        }

        struct sh_arg value = sh_word_to_arg(judge, assignment->value);

        if (assignment->append) {
                const struct sh_value *before = variables_pick(judge, assignment->name);
                bool known = before && !before->array;

                value = variables_joined(judge, known ? before->text : value_unknown().text, value);
        }

        variables_set(judge, assignment->name, value);
}

/* The newest binding once more, with something changed. */
static struct sh_variable *bind_again(struct judge *judge, struct str name) {
        const struct sh_variable *before = variables_find(judge, name);
        struct sh_variable *variable = bind_next(judge, name);

        if (variable && before)
                value_copy(variable, before);
        variables_settle(judge);
        return variable;
}

void variables_export(struct judge *judge, struct str name) {
        struct sh_variable *variable = bind_again(judge, name);
        if (variable)
                variable->exported = true;
        variables_settle(judge);
}

void variables_make_local(struct judge *judge, struct str name) {
        struct sh_variable *variable = bind_again(judge, name);
        if (variable)
                variable->local = true;
        variables_settle(judge);
}

/* --- ways that part and meet -------------------------------------------------------------------------------------- */

static size_t chain_length(const struct sh_variable *first) {
        if (first)
                return first->depth;

        return 0;
}

static const struct sh_variable *common_tail(const struct sh_variable *one, const struct sh_variable *other) {
        while (one != other) {
                size_t one_length = chain_length(one), other_length = chain_length(other);

                if (one_length >= other_length)
                        one = one ? one->next : NULL;
                if (other_length >= one_length)
                        other = other ? other->next : NULL;
        }

        return one;
}

static void values_add_all(struct judge *judge, struct sh_variable *to, const struct sh_variable *from) {
        if (from && from->lost) {
                to->lost = true;
                to->n = 0;
                return;
        }

        if (!from || from->n == 0) /* not set on that way */
                value_add(judge, to, value_unknown());

        for (size_t i = 0; from && i < from->n; i++)
                value_add(judge, to, from->values[i]);
}

static bool bound_above(const struct sh_variable *chain, const struct sh_variable *tail, struct str name) {
        for (; chain && chain != tail; chain = chain->next)
                if (str_eq(chain->name, name))
                        return true;
        return false;
}

/* Each variable that was bound on this way: what it holds on either of both. */
static void join_side(struct judge *judge, const struct sh_variable *side, const struct sh_variable *other,
                      const struct sh_variable *tail, const struct sh_variable **chain) {
        for (const struct sh_variable *variable = side; variable && variable != tail; variable = variable->next) {
                const struct sh_variable *theirs;
                struct sh_variable *both;

                if (bound_above(*chain, tail, variable->name))
                        continue; /* a newer one, or joined from the other side */

                theirs = chain_find(other, variable->name);
                both = bind_new(judge, chain, variable->name);
                if (!both)
                        return;

                values_add_all(judge, both, variable);
                values_add_all(judge, both, theirs);
                both->exported = variable->exported && theirs && theirs->exported;
                both->local = variable->local || (theirs && theirs->local);
        }
}

static bool same_binding(const struct sh_variable *variable, const struct sh_variable *sh_variable) {
        if (variable == sh_variable)
                return true;
        if (!variable || !sh_variable || variable->n != sh_variable->n || variable->lost != sh_variable->lost)
                return false;

        for (size_t i = 0; i < variable->n; i++)
                if (!same_value(&variable->values[i], &sh_variable->values[i]))
                        return false;

        return true;
}

bool variables_same(const struct sh_variable *variable, const struct sh_variable *sh_variable) {
        const struct sh_variable *tail = common_tail(variable, sh_variable);

        for (const struct sh_variable *v = variable; v && v != tail; v = v->next)
                if (!same_binding(chain_find(variable, v->name), chain_find(sh_variable, v->name)))
                        return false;

        for (const struct sh_variable *v = sh_variable; v && v != tail; v = v->next)
                if (!same_binding(chain_find(variable, v->name), chain_find(sh_variable, v->name)))
                        return false;

        return true;
}

/* What changed between two states is unknown from now on: for loops that never settle. */
const struct sh_variable *variables_widen(struct judge *judge, const struct sh_variable *variable,
                                          const struct sh_variable *sh_variable) {
        const struct sh_variable *tail = common_tail(variable, sh_variable), *chain = sh_variable;

        for (const struct sh_variable *v = sh_variable; v && v != tail; v = v->next)
                if (!same_binding(chain_find(variable, v->name), chain_find(sh_variable, v->name))) {
                        struct sh_variable *lost = bind_new(judge, &chain, v->name);
                        if (!lost)
                                return NULL;
                        lost->lost = true;
                }

        return chain;
}

const struct sh_variable *variables_join(struct judge *judge, const struct sh_variable *variable,
                                         const struct sh_variable *sh_variable) {
        const struct sh_variable *tail, *chain;

        if (variable == sh_variable || judge->variables_lost)
                return judge->variables_lost ? NULL : variable;

        tail = common_tail(variable, sh_variable);
        chain = tail;
        join_side(judge, variable, sh_variable, tail, &chain);
        join_side(judge, sh_variable, variable, tail, &chain);

        return chain;
}

void variables_enter_program(struct judge *judge) {
        const struct sh_variable *all = judge->where.variables, *chain = NULL;

        for (const struct sh_variable *variable = all; variable; variable = variable->next) {
                if (!variable->exported || chain_find(all, variable->name) != variable)
                        continue;

                struct sh_variable *copy = bind_new(judge, &chain, variable->name);
                if (!copy)
                        break;

                value_copy(copy, variable);
                copy->exported = true;
        }

        judge->where.variables = chain;
        variables_settle(judge);
}

void variables_leave_function(struct judge *judge, const struct sh_variable *before) {
        const struct sh_variable *inside = judge->where.variables;

        for (const struct sh_variable *variable = inside; variable && variable != before; variable = variable->next) {
                if (!variable->local || chain_find(inside, variable->name) != variable)
                        continue;

                const struct sh_variable *old = chain_find(before, variable->name);
                struct sh_variable *again = bind_new(judge, &judge->where.variables, variable->name);
                if (again && old) {
                        value_copy(again, old);
                        again->exported = old->exported;
                        again->local = old->local;
                }
        }

        variables_settle(judge);
}
