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

static const struct option *find_flag(const struct args *args, struct str name) {
        for (size_t t = 0; t < args->n_tables; t++)
                for (size_t i = 0; i < args->tables[t]->n; i++) {
                        const struct option *o = &args->tables[t]->rows[i];
                        if (o->flag && str_is(name, o->flag))
                                return o;
                }
        return NULL;
}

static const struct option *find_letter(const struct args *args, char letter) {
        for (size_t t = 0; t < args->n_tables; t++)
                for (size_t i = 0; i < args->tables[t]->n; i++)
                        if (args->tables[t]->rows[i].letter == letter)
                                return &args->tables[t]->rows[i];
        return NULL;
}

static int unknown_flag(const struct args *args, struct str name, struct err *err) {
        struct suggestion suggestion = suggest_for(name);
        for (size_t t = 0; t < args->n_tables; t++)
                for (size_t i = 0; i < args->tables[t]->n; i++)
                        suggest_offer(&suggestion, args->tables[t]->rows[i].flag);
        return err_set(err, EINVAL, "unknown option %s%s", show(str_n(name.p - 2, name.n + 2)).text,
                       suggest_text(&suggestion, "--").text);
}

static int missing_value(const struct option *option, const char *origin, struct err *err) {
        return err_set(err, EINVAL, "%s needs a value: %s %s", origin, origin, text_or(option->metavar, "VALUE"));
}

/* The value that follows as a word of its own. */
static int set_from_next(struct args *args, const struct option *option, const char *origin, struct err *err) {
        if (args->next >= args->argc)
                return missing_value(option, origin, err);
        return option_set(args->values, option, str_of(args->argv[args->next++]), origin, err);
}

/* "--no-x" for a flag that exists; false when it is not that. */
static const struct option *find_negated(const struct args *args, struct str name) {
        if (!str_starts(name, STR("no-")))
                return NULL;
        const struct option *o = find_flag(args, str_skip(name, 3));
        return o && o->type == OPTION_FLAG ? o : NULL;
}

static int read_long(struct args *args, struct str word, struct err *err) {
        ptrdiff_t equals = str_find(word, '=');
        struct str name = equals < 0 ? word : str_first(word, (size_t)equals);
        const struct option *o = find_flag(args, name), *negated = o ? NULL : find_negated(args, name);
        if (!o && !negated)
                return unknown_flag(args, name, err);

        char origin[80];
        snprintf(origin, sizeof origin, "--%.*s", STR_FMT(name));
        if (negated && equals >= 0)
                return err_set(err, EINVAL, "%s takes no value", origin);
        if (negated)
                return option_set(args->values, negated, STR("false"), origin, err);
        if (equals >= 0)
                return option_set(args->values, o, str_skip(word, (size_t)equals + 1), origin, err);
        if (o->type == OPTION_FLAG)
                return option_set(args->values, o, STR("true"), origin, err);

        return set_from_next(args, o, origin, err);
}

/* "-v", "-vq" (flags together), "-wDIR", "-w DIR". */
static int read_letters(struct args *args, struct str letters, struct err *err) {
        while (letters.n > 0) {
                const struct option *o = find_letter(args, letters.p[0]);
                if (!o)
                        return err_set(err, EINVAL, "unknown option '-%s", show(str_first(letters, 1)).text + 1);

                char origin[3] = { '-', letters.p[0], '\0' };
                letters = str_skip(letters, 1);

                if (o->type != OPTION_FLAG) {
                        if (letters.n > 0)
                                return option_set(args->values, o, letters, origin, err);
                        return set_from_next(args, o, origin, err);
                }

                int r = option_set(args->values, o, STR("true"), origin, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int option_parse_args(const struct option_table *const *tables, size_t n_tables, int argc, char **argv,
                      struct option_values *values, int *ret_used, struct err *err) {
        struct args args = {
                .tables = tables, .n_tables = n_tables, .argc = argc, .next = 1, .argv = argv, .values = values
        };
        while (args.next < argc) {
                struct str word = str_of(argv[args.next]);
                if (word.n < 2 || word.p[0] != '-')
                        break;

                args.next++;
                if (str_is(word, "--"))
                        break;

                int r = word.p[1] == '-' ? read_long(&args, str_skip(word, 2), err)
                                         : read_letters(&args, str_skip(word, 1), err);
                if (r < 0)
                        return r;
        }

        *ret_used = argc > 0 ? args.next - 1 : 0;
        return 0;
}

static int set_from_variable(struct option_values *values, const struct option *option, struct str text,
                             struct err *err) {
        if (!option_repeats(option))
                return option_set(values, option, text, option->env, err);

        struct str part;

        while (str_split(&text, ',', &part)) {
                part = str_trim(part);
                int r = 0;

                if (part.n > 0)
                        r = option_set(values, option, part, option->env, err);

                if (r < 0)
                        return r;
        }

        return 0;
}

int option_parse_env(const struct option_table *const *tables, size_t n_tables, struct option_values *values,
                     struct err *err) {
        for (size_t t = 0; t < n_tables; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        const struct option *o = &tables[t]->rows[i];
                        const char *text = o->env ? getenv(o->env) : NULL;
                        int r = 0;

                        if (text && *text)
                                r = set_from_variable(values, o, str_of(text), err);

                        if (r < 0)
                                return r;
                }

        return 0;
}
