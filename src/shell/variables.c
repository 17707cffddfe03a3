/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/variables.h"

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

const struct sh_variable *variables_find(const struct judge *j, struct str name) {
        return j->variables_lost ? NULL : chain_find(j->where.variables, name);
}

/* One digit of the counter over all combinations of values: the variable's own, or a new one. */
static struct sh_pick *pick_of(struct judge *j, struct str name, size_t of) {
        struct sh_picks *picks = &j->picks;

        for (size_t i = 0; i < picks->n; i++)
                if (str_eq(picks->p[i].name, name))
                        return &picks->p[i];
        if (picks->n == PICKS_MAX)
                return NULL;
        name = arena_copy(&j->arena, name); /* it may stand in a tree that goes away first: {${x-y},z} */
        if (!name.p)
                return NULL;
        picks->p[picks->n] = (struct sh_pick){ .name = name, .of = of };
        return &picks->p[picks->n++];
}

const struct sh_value *variables_pick(struct judge *j, struct str name) {
        const struct sh_variable *v = variables_find(j, name);
        const struct sh_pick *pick;

        if (!v || v->n == 0)
                return NULL;
        if (v->n == 1)
                return &v->values[0];
        if (j->picks.unknown)
                return NULL;

        pick = pick_of(j, v->name, v->n);
        return pick && pick->at < v->n ? &v->values[pick->at] : NULL;
}

size_t variables_choose(struct judge *j, struct str name, size_t n) {
        const struct sh_pick *pick = j->picks.unknown ? NULL : pick_of(j, name, n);
        return pick ? pick->at : n;
}

void variables_begin(struct judge *j) {
        j->picks = (struct sh_picks){ .n = 0 };
}

bool variables_next(struct judge *j) {
        struct sh_picks *picks = &j->picks;

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

static struct sh_variable *bind_new(struct judge *j, const struct sh_variable **chain, struct str name) {
        struct sh_variable *v;

        if (*chain && (*chain)->depth >= BINDINGS_MAX) {
                *chain = NULL; /* nothing is known from here on */
                j->variables_lost = true;
        }
        if (j->variables_lost)
                return NULL;

        v = arena_get(&j->arena, sizeof *v);
        if (!v) {
                judge_not_understood(j, "too long");
                return NULL;
        }
        *v = (struct sh_variable){ .next = *chain, .depth = *chain ? (*chain)->depth + 1 : 1 };
        v->name = arena_copy(&j->arena, name); /* the tree that it stands in may go away first */
        if (!v->name.p)
                return NULL;
        *chain = v;
        return v;
}

static bool same_text(const struct sh_arg *a, const struct sh_arg *b) {
        return a->pattern == b->pattern && str_eq(a->text, b->text);
}

static bool same_value(const struct sh_value *a, const struct sh_value *b) {
        if (a->array != b->array || a->n != b->n)
                return false;
        if (!a->array)
                return same_text(&a->text, &b->text);
        for (size_t i = 0; i < a->n; i++)
                if (!same_text(&a->items[i], &b->items[i]))
                        return false;
        return true;
}

/* Room for one more. */
static bool values_grow(struct judge *j, struct sh_variable *v) {
        size_t cap = v->n ? 2 * v->n : 1;
        struct sh_value *values;

        if (v->n < v->cap)
                return true;
        values = v->n < VALUES_MAX ? arena_get(&j->arena, cap * sizeof *values) : NULL;
        if (!values)
                return false;
        if (v->n > 0)
                memcpy(values, v->values, v->n * sizeof *values);
        v->values = values;
        v->cap = cap;
        return true;
}

static void value_add(struct judge *j, struct sh_variable *v, struct sh_value value) {
        if (v->lost)
                return;
        for (size_t i = 0; i < v->n; i++)
                if (same_value(&v->values[i], &value))
                        return;
        if (!values_grow(j, v)) { /* too many: all that is known of it is that it is set */
                v->n = 0;
                v->lost = true;
                return;
        }
        v->values[v->n++] = value;
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
static struct sh_value value_of(struct judge *j, struct sh_arg arg) {
        struct sh_value value = { .text = { .unknown = arg.unknown, .pattern = arg.pattern } };

        if (arg.text.n > VALUE_BYTES_MAX || arg.process || arg.fed)
                return value_unknown();
        value.text.text = arena_copy(&j->arena, arg.text);
        return value.text.text.p ? value : value_unknown();
}

/* a[$(x)] as text, where it stands in a variable: it runs as soon as somebody reads it as a number. */
static bool runs_as_number(struct str text) {
        for (size_t i = 1; i < text.n; i++)
                if (text.p[i] == '[' && (ascii_is_alnum(text.p[i - 1]) || text.p[i - 1] == '_') &&
                    index_runs(str_skip(text, i)))
                        return true;
        return false;
}

static struct sh_variable *bind_next(struct judge *j, struct str name) {
        const struct sh_variable *before = variables_find(j, name);
        struct sh_variable *v = bind_new(j, &j->where.variables, name);

        if (v && before) {
                v->exported = before->exported;
                v->local = before->local;
        }
        return v;
}

/* Both ends of a command see what it set: an assignment does not fail. */
static void settle(struct judge *j) {
        j->failed.variables = j->where.variables;
}

void variables_set(struct judge *j, struct str name, struct sh_arg value) {
        struct sh_variable *v = bind_next(j, name);

        if (runs_as_number(value.text))
                judge_not_understood(j, "a value that runs a command when it is read as a number");
        if (v)
                value_add(j, v, value_of(j, value));
        settle(j);
}

void variables_set_array(struct judge *j, struct str name, const struct sh_arg *items, size_t n) {
        struct sh_variable *v = bind_next(j, name);
        struct sh_value value = { .array = true, .n = n };

        settle(j);
        if (!v || n > ITEMS_MAX)
                return;
        if (n > 0) {
                struct sh_arg *copies = arena_get(&j->arena, n * sizeof *copies);
                if (!copies)
                        return;
                for (size_t i = 0; i < n; i++)
                        copies[i] = value_of(j, items[i]).text;
                value.items = copies;
        }
        value_add(j, v, value);
}

void variables_set_any(struct judge *j, struct str name, const struct sh_arg *values, size_t n) {
        struct sh_variable *v = bind_next(j, name);

        for (size_t i = 0; v && i < n; i++)
                value_add(j, v, value_of(j, values[i]));
        settle(j);
}

void variables_forget(struct judge *j, struct str name) {
        if (variables_find(j, name))
                (void)bind_next(j, name);
        settle(j);
}

void variables_forget_named(struct judge *j, struct str expression) {
        if (str_find(expression, '=') < 0 && str_find(expression, '+') < 0 && str_find(expression, '-') < 0)
                return;
        for (size_t i = 0, n; i < expression.n; i += n) {
                n = 0;
                while (i + n < expression.n && (ascii_is_alnum(expression.p[i + n]) || expression.p[i + n] == '_'))
                        n++;
                if (n > 0)
                        variables_forget(j, str_n(expression.p + i, n));
                else
                        n = 1;
        }
}

void variables_forget_all(struct judge *j) {
        j->where.variables = NULL;
        settle(j);
}

/* --- assignments -------------------------------------------------------------------------------------------------- */

static struct sh_arg joined(struct judge *j, struct sh_arg a, struct sh_arg b) {
        cleanup(buf_done) struct buf text = BUF(2 * VALUE_BYTES_MAX);
        struct sh_arg both = { .unknown = a.unknown || b.unknown, .pattern = a.pattern || b.pattern };

        if (buf_append(&text, a.text) < 0 || buf_append(&text, b.text) < 0)
                return value_unknown().text;
        both.text = arena_copy(&j->arena, buf_str(&text));
        return both.text.p ? both : value_unknown().text;
}

/* NAME+=(...): behind what is there, if that is known. */
static void append_items(struct judge *j, struct str name, const struct sh_args *more) {
        const struct sh_value *before = variables_pick(j, name);
        struct sh_args all = { 0 };

        if (!before) {
                variables_forget(j, name);
                return;
        }
        if (!before->array && sh_args_add(j, &all, before->text) < 0)
                return;
        for (size_t i = 0; before->array && i < before->n; i++)
                if (sh_args_add(j, &all, before->items[i]) < 0)
                        return;
        for (size_t i = 0; i < more->n; i++)
                if (sh_args_add(j, &all, more->p[i]) < 0)
                        return;
        variables_set_array(j, name, all.p, all.n);
}

static void assign_array(struct judge *j, const struct sh_assignment *a) {
        struct sh_args items = { 0 };

        if (sh_words_to_args(j, a->array, &items) < 0)
                return;
        for (size_t i = 0; i < items.n; i++)
                if (items.p[i].text.n && items.p[i].text.p[0] == '[') { /* [key]=value */
                        variables_forget(j, a->name);
                        return;
                }
        if (a->append)
                append_items(j, a->name, &items);
        else
                variables_set_array(j, a->name, items.p, items.n);
}

/* NAME[2]=VALUE: in the array that is known, or a new one at its first place. */
static void assign_item(struct judge *j, const struct sh_assignment *a) {
        const struct sh_value *before = variables_pick(j, a->name);
        struct sh_arg index = sh_word_to_arg(j, a->index), value = sh_word_to_arg(j, a->value);
        struct sh_args items = { 0 };
        uint64_t at;

        for (size_t i = 0; before && before->array && i < before->n; i++)
                if (sh_args_add(j, &items, before->items[i]) < 0)
                        return;
        if (index.unknown || !str_to_u64(index.text, ITEMS_MAX, &at) || at > items.n || a->append) {
                variables_forget(j, a->name);
                return;
        }
        if (at < items.n)
                items.p[at] = value;
        else if (sh_args_add(j, &items, value) < 0)
                return;
        variables_set_array(j, a->name, items.p, items.n);
}

void variables_assign(struct judge *j, const struct sh_assignment *a) {
        if (a->is_array) {
                assign_array(j, a);
                return;
        }
        if (a->index) {
                assign_item(j, a);
                return;
        }

        struct sh_arg value = sh_word_to_arg(j, a->value);
        if (a->append) {
                const struct sh_value *before = variables_pick(j, a->name);
                bool known = before && !before->array;
                value = joined(j, known ? before->text : value_unknown().text, value);
        }
        variables_set(j, a->name, value);
}

/* The newest binding once more, with something changed. */
static struct sh_variable *bind_again(struct judge *j, struct str name) {
        const struct sh_variable *before = variables_find(j, name);
        struct sh_variable *v = bind_next(j, name);

        if (v && before)
                value_copy(v, before);
        settle(j);
        return v;
}

void variables_export(struct judge *j, struct str name) {
        struct sh_variable *v = bind_again(j, name);
        if (v)
                v->exported = true;
        settle(j);
}

void variables_make_local(struct judge *j, struct str name) {
        struct sh_variable *v = bind_again(j, name);
        if (v)
                v->local = true;
        settle(j);
}

/* --- ways that part and meet -------------------------------------------------------------------------------------- */

static const struct sh_variable *common_tail(const struct sh_variable *a, const struct sh_variable *b) {
        while (a != b) {
                size_t deep_a = a ? a->depth : 0, deep_b = b ? b->depth : 0;
                if (deep_a >= deep_b)
                        a = a ? a->next : NULL;
                if (deep_b >= deep_a)
                        b = b ? b->next : NULL;
        }
        return a;
}

static void values_add_all(struct judge *j, struct sh_variable *to, const struct sh_variable *from) {
        if (from && from->lost) {
                to->lost = true;
                to->n = 0;
                return;
        }
        if (!from || from->n == 0) /* not set on that way */
                value_add(j, to, value_unknown());
        for (size_t i = 0; from && i < from->n; i++)
                value_add(j, to, from->values[i]);
}

static bool bound_above(const struct sh_variable *chain, const struct sh_variable *tail, struct str name) {
        for (; chain && chain != tail; chain = chain->next)
                if (str_eq(chain->name, name))
                        return true;
        return false;
}

/* Each variable that was bound on this way: what it holds on either of both. */
static void join_side(struct judge *j, const struct sh_variable *side, const struct sh_variable *other,
                      const struct sh_variable *tail, const struct sh_variable **chain) {
        for (const struct sh_variable *v = side; v && v != tail; v = v->next) {
                const struct sh_variable *theirs;
                struct sh_variable *both;

                if (bound_above(*chain, tail, v->name))
                        continue; /* a newer one, or joined from the other side */
                theirs = chain_find(other, v->name);
                both = bind_new(j, chain, v->name);
                if (!both)
                        return;
                values_add_all(j, both, v);
                values_add_all(j, both, theirs);
                both->exported = v->exported && theirs && theirs->exported;
                both->local = v->local || (theirs && theirs->local);
        }
}

static bool same_binding(const struct sh_variable *a, const struct sh_variable *b) {
        if (a == b)
                return true;
        if (!a || !b || a->n != b->n || a->lost != b->lost)
                return false;
        for (size_t i = 0; i < a->n; i++)
                if (!same_value(&a->values[i], &b->values[i]))
                        return false;
        return true;
}

bool variables_same(const struct sh_variable *a, const struct sh_variable *b) {
        const struct sh_variable *tail = common_tail(a, b);

        for (const struct sh_variable *v = a; v && v != tail; v = v->next)
                if (!same_binding(chain_find(a, v->name), chain_find(b, v->name)))
                        return false;
        for (const struct sh_variable *v = b; v && v != tail; v = v->next)
                if (!same_binding(chain_find(a, v->name), chain_find(b, v->name)))
                        return false;
        return true;
}

/* What changed between two states is unknown from now on: for loops that never settle. */
const struct sh_variable *variables_widen(struct judge *j, const struct sh_variable *a, const struct sh_variable *b) {
        const struct sh_variable *tail = common_tail(a, b), *chain = b;

        for (const struct sh_variable *v = b; v && v != tail; v = v->next)
                if (!same_binding(chain_find(a, v->name), chain_find(b, v->name))) {
                        struct sh_variable *lost = bind_new(j, &chain, v->name);
                        if (!lost)
                                return NULL;
                        lost->lost = true;
                }
        return chain;
}

const struct sh_variable *variables_join(struct judge *j, const struct sh_variable *a, const struct sh_variable *b) {
        const struct sh_variable *tail, *chain;

        if (a == b || j->variables_lost)
                return j->variables_lost ? NULL : a;
        tail = common_tail(a, b);
        chain = tail;
        join_side(j, a, b, tail, &chain);
        join_side(j, b, a, tail, &chain);
        return chain;
}

void variables_enter_program(struct judge *j) {
        const struct sh_variable *all = j->where.variables, *chain = NULL;

        for (const struct sh_variable *v = all; v; v = v->next) {
                if (!v->exported || chain_find(all, v->name) != v)
                        continue;
                struct sh_variable *copy = bind_new(j, &chain, v->name);
                if (!copy)
                        break;
                value_copy(copy, v);
                copy->exported = true;
        }
        j->where.variables = chain;
        settle(j);
}

void variables_leave_function(struct judge *j, const struct sh_variable *before) {
        const struct sh_variable *inside = j->where.variables;

        for (const struct sh_variable *v = inside; v && v != before; v = v->next) {
                if (!v->local || chain_find(inside, v->name) != v)
                        continue;
                const struct sh_variable *old = chain_find(before, v->name);
                struct sh_variable *again = bind_new(j, &j->where.variables, v->name);
                if (again && old) {
                        value_copy(again, old);
                        again->exported = old->exported;
                        again->local = old->local;
                }
        }
        settle(j);
}
