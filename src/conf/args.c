/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/option.h"

#include "base/cleanup.h"
#include "conf/suggest.h"

#include <errno.h>
#include <stdio.h>

/*
 * The command line and the environment, read by the tables of conf/option.h. Words are taken from the front; the first
 * word that is no option ends the reading, so that the options of the command to be run are never looked at.
 */

struct args {
        const struct option_table *const *tables;
        size_t n_tables;
        int argc, next; /* next: index of the word to be read */
        char **argv;
        struct option_values *values;
};

static const struct option *find_flag(const struct args *a, struct str name) {
        for (size_t t = 0; t < a->n_tables; t++)
                for (size_t i = 0; i < a->tables[t]->n; i++) {
                        const struct option *o = &a->tables[t]->rows[i];
                        if (o->flag && str_is(name, o->flag))
                                return o;
                }
        return NULL;
}

static const struct option *find_letter(const struct args *a, char letter) {
        for (size_t t = 0; t < a->n_tables; t++)
                for (size_t i = 0; i < a->tables[t]->n; i++)
                        if (a->tables[t]->rows[i].letter == letter)
                                return &a->tables[t]->rows[i];
        return NULL;
}

static int unknown_flag(const struct args *a, struct str name, struct err *e) {
        struct suggestion s = suggest_for(name);
        for (size_t t = 0; t < a->n_tables; t++)
                for (size_t i = 0; i < a->tables[t]->n; i++)
                        suggest_offer(&s, a->tables[t]->rows[i].flag);
        return err_set(e, EINVAL, "unknown option %s%s", show(str_n(name.p - 2, name.n + 2)).text,
                       suggest_text(&s, "--").text);
}

static int missing_value(const struct option *o, const char *origin, struct err *e) {
        return err_set(e, EINVAL, "%s needs a value: %s %s", origin, origin, o->metavar ? o->metavar : "VALUE");
}

/* The value that follows as a word of its own. */
static int set_from_next(struct args *a, const struct option *o, const char *origin, struct err *e) {
        if (a->next >= a->argc)
                return missing_value(o, origin, e);
        return option_set(a->values, o, str_of(a->argv[a->next++]), origin, e);
}

/* "--no-x" for a flag that exists; false when it is not that. */
static const struct option *find_negated(const struct args *a, struct str name) {
        if (!str_starts(name, STR("no-")))
                return NULL;
        const struct option *o = find_flag(a, str_skip(name, 3));
        return o && o->type == OPTION_FLAG ? o : NULL;
}

static int read_long(struct args *a, struct str word, struct err *e) {
        ptrdiff_t equals = str_find(word, '=');
        struct str name = equals < 0 ? word : str_first(word, (size_t)equals);
        const struct option *o = find_flag(a, name), *negated = o ? NULL : find_negated(a, name);
        if (!o && !negated)
                return unknown_flag(a, name, e);
        char origin[80];
        snprintf(origin, sizeof origin, "--%.*s", STR_FMT(name));
        if (negated && equals >= 0)
                return err_set(e, EINVAL, "%s takes no value", origin);
        if (negated)
                return option_set(a->values, negated, STR("false"), origin, e);
        if (equals >= 0)
                return option_set(a->values, o, str_skip(word, (size_t)equals + 1), origin, e);
        if (o->type == OPTION_FLAG)
                return option_set(a->values, o, STR("true"), origin, e);
        return set_from_next(a, o, origin, e);
}

/* "-v", "-vq" (flags together), "-wDIR", "-w DIR". */
static int read_letters(struct args *a, struct str letters, struct err *e) {
        while (letters.n > 0) {
                const struct option *o = find_letter(a, letters.p[0]);
                if (!o)
                        return err_set(e, EINVAL, "unknown option '-%s", show(str_first(letters, 1)).text + 1);
                char origin[3] = { '-', letters.p[0], '\0' };
                letters = str_skip(letters, 1);
                if (o->type != OPTION_FLAG)
                        return letters.n > 0 ? option_set(a->values, o, letters, origin, e)
                                             : set_from_next(a, o, origin, e);
                int r = option_set(a->values, o, STR("true"), origin, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int option_parse_args(const struct option_table *const *tables, size_t n_tables, int argc, char **argv,
                      struct option_values *v, int *ret_used, struct err *e) {
        struct args a = { .tables = tables, .n_tables = n_tables, .argc = argc, .next = 1, .argv = argv, .values = v };
        while (a.next < argc) {
                struct str word = str_of(argv[a.next]);
                if (word.n < 2 || word.p[0] != '-')
                        break;
                a.next++;
                if (str_is(word, "--"))
                        break;
                int r = word.p[1] == '-' ? read_long(&a, str_skip(word, 2), e) : read_letters(&a, str_skip(word, 1), e);
                if (r < 0)
                        return r;
        }
        *ret_used = argc > 0 ? a.next - 1 : 0;
        return 0;
}

static int set_from_variable(struct option_values *v, const struct option *o, struct str text, struct err *e) {
        if (!option_repeats(o))
                return option_set(v, o, text, o->env, e);
        struct str part;
        while (str_split(&text, ',', &part)) {
                part = str_trim(part);
                int r = part.n > 0 ? option_set(v, o, part, o->env, e) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int option_parse_env(const struct option_table *const *tables, size_t n_tables, struct option_values *v,
                     struct err *e) {
        for (size_t t = 0; t < n_tables; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        const struct option *o = &tables[t]->rows[i];
                        const char *text = o->env ? getenv(o->env) : NULL;
                        int r = text && *text ? set_from_variable(v, o, str_of(text), e) : 0;
                        if (r < 0)
                                return r;
                }
        return 0;
}
