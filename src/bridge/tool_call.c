/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/tool_call.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "bridge/tool_value.h"
#include "conf/suggest.h"
#include "policy/tools/tools.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct reading {
        const struct bridge_tool *tool;
        const struct str *words;
        size_t n, at;
        struct tool_verb verb;
        bool given[TOOL_OPTIONS_MAX];
        size_t n_places; /* arguments so far */
        tool_texts options, places;
        struct tool_call *call;
        int error; /* -ENOMEM */
};

static void texts_free(tool_texts *all) {
        for (size_t i = 0; i < all->n; i++)
                free(all->p[i]);
        vec_done(all);
}

void tool_call_done(struct tool_call *call) {
        texts_free(&call->argv);
}

static int add_text(tool_texts *all, char *owned) {
        if (owned && vec_push(all, owned) == 0)
                return 0;
        free(owned);
        return -ENOMEM;
}

__attribute__((format(printf, 2, 3))) static bool call_refuse(struct reading *reading, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(reading->call->why, sizeof reading->call->why, format, args);
        va_end(args);
        reading->call->verdict = TOOL_REFUSED;
        return false;
}

/* --- what is refused with a reason --- */

static bool never_find(const struct bridge_tool *tool, enum tool_never_kind kind, struct str word,
                       struct tool_never *ret) {
        for (size_t i = 0; i < tool->never.n; i++)
                if (tool_never_parse(str_of(tool->never.p[i].text), ret, NULL) == 0 && ret->kind == kind &&
                    str_eq_nocase(ret->word, word))
                        return true;
        return false;
}

/* "secret", "secrets/x", "pods,secrets" and "secrets.v1" name the same thing. */
static bool argument_is_refused(struct reading *reading, struct str text) {
        struct str rest = text, item, kind;
        struct tool_never never;

        while (str_split(&rest, ',', &item)) {
                size_t end = 0;
                while (end < item.n && item.p[end] != '/' && item.p[end] != '.')
                        end++;

                kind = str_first(item, end);
                if (never_find(reading->tool, TOOL_NEVER_ARGUMENT, kind, &never)) {
                        call_refuse(reading, "%s: %.*s", show(item).text, STR_FMT(never.reason));
                        return true;
                }
        }

        return false;
}

/* --- the verb --- */

static bool verb_fits(const struct reading *reading, const struct tool_verb *verb) {
        if (reading->n - reading->at < verb->n_words)
                return false;
        for (size_t i = 0; i < verb->n_words; i++)
                if (!str_eq(reading->words[reading->at + i], verb->words[i]))
                        return false;
        return true;
}

static bool verb_is_never(struct reading *reading) {
        cleanup(buf_done) struct buf words = BUF(512);
        struct tool_never never;

        for (size_t i = reading->at; i < reading->n && i < reading->at + 3; i++) {
                if ((words.n && buf_add(&words, " ") < 0) || buf_append(&words, reading->words[i]) < 0)
                        return false;
                if (never_find(reading->tool, TOOL_NEVER_VERB, buf_str(&words), &never)) {
                        call_refuse(reading, "%s %.*s: %.*s", reading->tool->name, STR_FMT(never.word),
                                    STR_FMT(never.reason));
                        return true;
                }
        }

        return false;
}

static void list_verbs(const struct reading *reading, struct buf *out) {
        struct tool_verb *verb = calloc(1, sizeof *verb);

        for (size_t i = 0; verb && i < reading->tool->verbs.n; i++) {
                if (tool_verb_parse(str_of(reading->tool->verbs.p[i].text), verb, NULL) < 0)
                        continue;
                (void)buf_add(out, out->n ? ", " : "");
                for (size_t k = 0; k < verb->n_words; k++)
                        (void)buf_printf(out, "%s%.*s", k ? " " : "", STR_FMT(verb->words[k]));
        }

        free(verb);
}

static bool refuse_verb(struct reading *reading) {
        cleanup(buf_done) struct buf known = BUF(700);

        if (tool_is(reading->tool->otherwise, "inside", false)) {
                reading->call->verdict = TOOL_INSIDE;
                snprintf(reading->call->why, sizeof reading->call->why,
                         "the bridge has no such verb: %s inside does it, without your credentials",
                         reading->tool->name);
                return false;
        }

        if (verb_is_never(reading))
                return false;

        list_verbs(reading, &known);
        if (reading->at == reading->n)
                return call_refuse(reading, "the verb is missing; there are: %.*s", STR_FMT(buf_str(&known)));

        return call_refuse(reading, "%s is not among the verbs of %s: %.*s", show(reading->words[reading->at]).text,
                           reading->tool->name, STR_FMT(buf_str(&known)));
}

/* The longest that fits: "top pods" before "top". */
static bool find_verb(struct reading *reading) {
        struct tool_verb *verb = calloc(1, sizeof *verb);
        size_t best = SIZE_MAX, longest = 0;

        if (!verb) {
                reading->error = -ENOMEM;
                return false;
        }

        for (size_t i = 0; i < reading->tool->verbs.n; i++)
                if (tool_verb_parse(str_of(reading->tool->verbs.p[i].text), verb, NULL) == 0 &&
                    verb_fits(reading, verb) && verb->n_words > longest) {
                        best = i;
                        longest = verb->n_words;
                }

        free(verb);
        if (best == SIZE_MAX)
                return refuse_verb(reading);

        reading->call->line = reading->tool->verbs.p[best].text;
        (void)tool_verb_parse(str_of(reading->call->line), &reading->verb, NULL);
        reading->at += longest;

        return true;
}

/* --- options and arguments --- */

static bool refuse_option(struct reading *reading, struct str name) {
        cleanup(buf_done) struct buf known = BUF(700);
        struct tool_never never;

        if (never_find(reading->tool, TOOL_NEVER_OPTION, name, &never))
                return call_refuse(reading, "%.*s: %.*s", STR_FMT(never.word), STR_FMT(never.reason));

        for (size_t i = 0; i < reading->verb.n_options; i++) {
                const struct tool_option *option = &reading->verb.options[i];
                if (option->always)
                        continue;

                const char *gap = known.n ? ", " : "";
                const char *bar = option->letter.n ? "|" : "";
                (void)buf_printf(&known, "%s%.*s%s%.*s", gap, STR_FMT(option->letter), bar, STR_FMT(option->name));
        }

        return call_refuse(reading, "%s is not among the options of this verb, by its whole name: %.*s",
                           show(name).text, STR_FMT(buf_str(&known)));
}

static bool add_value(struct reading *reading, tool_texts *list, struct str before, const struct tool_slot *slot,
                      struct str text) {
        cleanup(buf_done) struct buf out = BUF(TOOL_TEXT_MAX);
        struct err why = { 0 };
        int r = buf_append(&out, before);

        if (r == 0)
                r = tool_value_write(reading->tool, slot, text, &out, &why);
        if (r == -EINVAL)
                return call_refuse(reading, "%.*s%s%s", STR_FMT(before), before.n ? " " : "", err_text(&why));

        if (r < 0 || add_text(list, str_dup(buf_str(&out))) < 0) {
                reading->error = -ENOMEM;
                return false;
        }

        return true;
}

static bool read_option(struct reading *reading, struct str word) {
        ptrdiff_t equals = str_starts(word, STR("--")) ? str_find(word, '=') : -1;
        struct str name = equals < 0 ? word : str_first(word, (size_t)equals);
        const struct tool_option *option = tool_verb_option(&reading->verb, name);
        cleanup(free_ptr) char *before = NULL;

        if (!option)
                return refuse_option(reading, name);

        reading->given[option - reading->verb.options] = true;

        if (option->slot.type == TOOL_FLAG) {
                if (equals >= 0)
                        return call_refuse(reading, "%.*s has no value", STR_FMT(name));
                if (add_text(&reading->options, str_dup(option->name)) < 0)
                        reading->error = -ENOMEM;
                return reading->error == 0;
        }

        struct str value;

        if (equals >= 0)
                value = str_skip(word, (size_t)equals + 1);
        else if (reading->at < reading->n)
                value = reading->words[reading->at++];
        else
                return call_refuse(reading, "%.*s needs a value", STR_FMT(name));

        before = str_format("%.*s=", STR_FMT(option->name));
        if (!before) {
                reading->error = -ENOMEM;
                return false;
        }

        return add_value(reading, &reading->options, str_of(before), &option->slot, value);
}

static bool read_place(struct reading *reading, struct str word) {
        const struct tool_verb *verb = &reading->verb;
        size_t i = reading->n_places < verb->n_places ? reading->n_places : verb->n_places - 1;

        if (verb->n_places == 0 || (reading->n_places >= verb->n_places && !verb->places[i].repeats))
                return call_refuse(reading, "%s is one argument too many: %s", show(word).text, reading->call->line);

        if (word.n == 0 || word.p[0] == '-')
                return call_refuse(reading, "%s: an argument does not begin with a dash and is not empty",
                                   show(word).text);

        if (argument_is_refused(reading, word))
                return false;

        reading->n_places++;
        return add_value(reading, &reading->places, STR(""), &verb->places[i].slot, word);
}

static bool read_words(struct reading *reading) {
        bool only_places = false;

        while (reading->at < reading->n) {
                struct str word = reading->words[reading->at++];
                bool dash = word.n > 1 && word.p[0] == '-' && !only_places, good;

                if (dash && str_is(word, "--")) {
                        only_places = true;
                        continue;
                }

                if (dash)
                        good = read_option(reading, word);
                else
                        good = read_place(reading, word);
                if (!good)
                        return false;
        }

        return true;
}

/* --- what must be there --- */

static bool fill_option(struct reading *reading, const struct tool_option *option) {
        struct str only;
        cleanup(free_ptr) char *before = str_format("%.*s=", STR_FMT(option->name));

        if (option->slot.type != TOOL_REPO || !tool_value_only_repo(reading->tool, &only))
                return call_refuse(reading, "%.*s is missing: %s", STR_FMT(option->name), reading->call->line);

        if (!before) {
                reading->error = -ENOMEM;
                return false;
        }

        return add_value(reading, &reading->options, str_of(before), &option->slot, only);
}

static bool check_required(struct reading *reading) {
        const struct tool_verb *verb = &reading->verb;

        for (size_t i = 0; i < verb->n_options; i++) {
                if (!verb->options[i].required || reading->given[i])
                        continue;
                if (!fill_option(reading, &verb->options[i]))
                        return false;
                reading->given[i] = true;
        }

        if (reading->n_places < verb->n_places && !verb->places[reading->n_places].optional)
                return call_refuse(reading, "an argument is missing: %s", reading->call->line);

        return true;
}

/* Options before the verb; only those that the table has, which have no values. */
static bool read_front(struct reading *reading, tool_texts *into) {
        for (; reading->at < reading->n; reading->at++) {
                struct str word = reading->words[reading->at];
                bool known = false;

                if (word.n == 0 || word.p[0] != '-')
                        return true;

                for (size_t i = 0; i < reading->tool->front.n; i++)
                        known = known || str_is(word, reading->tool->front.p[i].text);

                if (!known && tool_is(reading->tool->otherwise, "inside", false))
                        return refuse_verb(reading);

                if (!known) {
                        struct tool_never never;
                        ptrdiff_t equals = str_find(word, '=');
                        struct str name = equals < 0 ? word : str_first(word, (size_t)equals);
                        if (never_find(reading->tool, TOOL_NEVER_OPTION, name, &never))
                                return call_refuse(reading, "%.*s: %.*s", STR_FMT(never.word), STR_FMT(never.reason));

                        return call_refuse(reading, "%s stands before the verb: write the verb first, then its options",
                                           show(word).text);
                }

                if (add_text(into, str_dup(word)) < 0) {
                        reading->error = -ENOMEM;
                        return false;
                }
        }

        return true;
}

static int move_texts(tool_texts *into, tool_texts *source) {
        int r = 0;

        for (size_t i = 0; i < source->n; i++) {
                if (r == 0)
                        r = add_text(into, source->p[i]);
                else
                        free(source->p[i]);

                source->p[i] = NULL;
        }

        source->n = 0;
        return r;
}

/* The one form: name, front, verb, what is always there, options, --, arguments. */
static int write_call(struct reading *reading, tool_texts *front) {
        tool_texts *argv = &reading->call->argv;
        const struct tool_verb *verb = &reading->verb;
        int r = add_text(argv, str_dup(str_of(reading->tool->name)));

        if (r == 0)
                r = move_texts(argv, front);

        for (size_t i = 0; r == 0 && i < verb->n_words; i++)
                r = add_text(argv, str_dup(verb->words[i]));

        for (size_t i = 0; r == 0 && i < verb->n_options; i++)
                if (verb->options[i].always)
                        r = add_text(argv, str_format("%.*s%.*s", STR_FMT(verb->options[i].name),
                                                      STR_FMT(verb->options[i].value)));

        if (r == 0)
                r = move_texts(argv, &reading->options);
        if (r == 0 && reading->places.n && reading->tool->separator == SWITCH_ON)
                r = add_text(argv, str_dup(STR("--")));
        if (r == 0)
                r = move_texts(argv, &reading->places);
        if (r == 0)
                r = vec_push(argv, NULL);
        if (r == 0)
                argv->n--; /* the end is not counted */

        if (r < 0)
                return -ENOMEM;

        return 0;
}

/* --- what is asked about --- */

static bool ask_meets(const struct reading *reading, const struct tool_ask *ask) {
        if (!tool_ask_names(ask, &reading->verb))
                return false;

        for (size_t i = 0; i < ask->n_options; i++) {
                const struct tool_option *option = tool_verb_option(&reading->verb, ask->options[i]);
                if (!option || !reading->given[option - reading->verb.options])
                        return false;
        }

        return true;
}

/* An entry that cannot be read was refused with the policy; whatever else comes of it, somebody is asked. */
static void find_ask(struct reading *reading) {
        const origin_texts *entries = &reading->tool->ask;
        struct tool_ask ask;

        for (size_t i = 0; i < entries->n && !reading->call->ask; i++)
                if (tool_ask_parse(str_of(entries->p[i].text), &ask, NULL) < 0 || ask_meets(reading, &ask))
                        reading->call->ask = &entries->p[i];
}

int tool_call_write(const struct tool_call *call, const char *program, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < call->argv.n; i++) {
                if (i)
                        r = buf_add(out, " ");
                if (r == 0)
                        r = escape_shell(out, str_of(i == 0 && program ? program : call->argv.p[i]));
        }

        return r;
}

int tool_call_judge(const struct bridge_tool *tool, const struct str *words, size_t n, struct tool_call *ret) {
        tool_texts front = { 0 };
        struct reading *reading = calloc(1, sizeof *reading);
        int r = 0;

        *ret = (struct tool_call){ .verdict = TOOL_RUN };
        if (!reading)
                return -ENOMEM;

        *reading = (struct reading){ .tool = tool, .words = words, .n = n, .call = ret };

        if (n > TOOL_ARGS_MAX) {
                call_refuse(reading, "the call has more than %d words", TOOL_ARGS_MAX);
        } else if (read_front(reading, &front) && find_verb(reading) && read_words(reading) &&
                   check_required(reading)) {
                find_ask(reading);
                r = write_call(reading, &front);
        }

        if (r >= 0)
                r = reading->error;
        texts_free(&front);
        texts_free(&reading->options);
        texts_free(&reading->places);
        free(reading);

        if (r < 0)
                tool_call_done(ret);

        return r;
}
