/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/tools/tool_grammar.h"

#include "conf/suggest.h"

#include <errno.h>

static const char *const type_names[TOOL_TYPES] = {
        [TOOL_FLAG] = "",           [TOOL_TEXT] = "text", [TOOL_PROSE] = "prose",   [TOOL_SEARCH] = "search",
        [TOOL_INT] = "int",         [TOOL_WORD] = "word", [TOOL_WORDS] = "words",   [TOOL_REF] = "ref",
        [TOOL_REFSPEC] = "refspec", [TOOL_REPO] = "repo", [TOOL_REMOTE] = "remote", [TOOL_CHOICE] = "",
};

static bool is_plain(struct str text, const char *others) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && (text.p[i] == '\0' || !strchr(others, text.p[i])))
                        return false;
        return text.n > 0;
}

static bool is_long(struct str name) {
        return name.n > 2 && str_starts(name, STR("--")) && name.p[2] != '-' && is_plain(str_skip(name, 2), "-_.");
}

static bool is_letter(struct str name) {
        return name.n == 2 && name.p[0] == '-' && ascii_is_alnum(name.p[1]);
}

/* --- types --- */

static bool choice_is_repeated(struct str choices) {
        struct str rest = choices, one, later, other;

        while (str_split(&rest, '|', &one)) {
                later = rest;
                while (str_split(&later, '|', &other))
                        if (str_eq(one, other))
                                return true;
        }

        return false;
}

static int choices_check(struct str choices, struct err *err) {
        struct str rest = choices, one;

        if (choices.p[0] == '|' || choices.p[choices.n - 1] == '|')
                return err_set(err, EINVAL, "in <%.*s> a value is empty", STR_FMT(choices));

        while (str_split(&rest, '|', &one))
                if (!is_plain(one, "-_.:/=") || one.p[0] == '-')
                        return err_set(err, EINVAL, "in <%.*s> the value %s is no plain word", STR_FMT(choices),
                                       show(one).text);

        if (choice_is_repeated(choices))
                return err_set(err, EINVAL, "<%.*s> has a value twice", STR_FMT(choices));

        return 0;
}

/* "<type>" */
static int slot_parse(struct str text, struct tool_slot *ret, struct err *err) {
        if (text.n < 3 || text.p[0] != '<' || text.p[text.n - 1] != '>')
                return err_set(err, EINVAL, "%s: a type stands in angle brackets, as <word>", show(text).text);

        struct str name = str_n(text.p + 1, text.n - 2);
        if (str_find(name, '|') >= 0) {
                *ret = (struct tool_slot){ TOOL_CHOICE, name };
                return choices_check(name, err);
        }

        struct suggestion suggestion = suggest_for(name);

        for (unsigned type = TOOL_TEXT; type < TOOL_CHOICE; type++) {
                if (str_is(name, type_names[type])) {
                        *ret = (struct tool_slot){ .type = (enum tool_type)type };
                        return 0;
                }

                suggest_offer(&suggestion, type_names[type]);
        }

        return err_set(err, EINVAL,
                       "there is no type %s%s; there are text, prose, int, word, words, ref, refspec, repo, remote, "
                       "and values with | between them",
                       show(name).text, suggest_text(&suggestion, "").text);
}

/* --- parts of a line --- */

static int option_add(struct tool_verb *verb, struct tool_option option, struct err *err) {
        for (size_t i = 0; i < verb->n_options; i++) {
                const struct tool_option *other = &verb->options[i];
                bool same_letter = option.letter.n && str_eq(other->letter, option.letter);

                if (same_letter || str_eq(other->name, option.name))
                        return err_set(err, EINVAL, "%.*s is in the line twice",
                                       STR_FMT(same_letter ? option.letter : option.name));
        }

        if (verb->n_options == TOOL_OPTIONS_MAX)
                return err_set(err, EINVAL, "a verb has at most %d options", TOOL_OPTIONS_MAX);

        verb->options[verb->n_options++] = option;
        return 0;
}

/* "+--name" or "+--name=value" */
static int always_parse(struct str token, struct tool_verb *verb, struct err *err) {
        struct str text = str_skip(token, 1);
        ptrdiff_t equals = str_find(text, '=');
        struct tool_option option = { .name = text, .always = true };

        if (equals > 0) {
                option.name = str_first(text, (size_t)equals);
                option.value = str_skip(text, (size_t)equals);
        }

        if (!is_long(option.name) && !is_letter(text))
                return err_set(err, EINVAL, "%s: behind + stands an option, as +--no-pager", show(token).text);

        return option_add(verb, option, err);
}

/* "--name", "-n|--name", "--name=<type>", each with ! at its end */
static int option_parse(struct str token, struct tool_verb *verb, struct err *err) {
        struct tool_option option = { 0 };
        struct str text = token;

        if (text.p[text.n - 1] == '!') {
                option.required = true;
                text = str_first(text, text.n - 1);
        }

        ptrdiff_t equals = str_find(text, '=');
        if (equals > 0) {
                int r = slot_parse(str_skip(text, (size_t)equals + 1), &option.slot, err);
                if (r < 0)
                        return r;
                text = str_first(text, (size_t)equals);
        }

        ptrdiff_t bar = str_find(text, '|');
        if (bar > 0) {
                option.letter = str_first(text, (size_t)bar);
                text = str_skip(text, (size_t)bar + 1);
        }

        option.name = text;
        bool alone = bar <= 0 && is_letter(text) && option.slot.type == TOOL_FLAG;
        if ((!is_long(text) && !alone) || (bar > 0 && !is_letter(option.letter)))
                return err_set(err, EINVAL,
                               "%s is no option: write --name, --name=<type> or -n|--name=<type>; a value always goes "
                               "to a long name",
                               show(token).text);

        return option_add(verb, option, err);
}

/* "<type>", with ?, * or ... behind it */
static int place_parse(struct str token, struct tool_verb *verb, struct err *err) {
        struct tool_place place = { 0 };
        struct str text = token;

        if (str_ends(text, STR("..."))) {
                place.repeats = true;
                text = str_first(text, text.n - 3);
        } else if (text.p[text.n - 1] == '*') {
                place.repeats = place.optional = true;
                text = str_first(text, text.n - 1);
        } else if (text.p[text.n - 1] == '?') {
                place.optional = true;
                text = str_first(text, text.n - 1);
        }

        int r = slot_parse(text, &place.slot, err);
        if (r < 0)
                return r;
        if (verb->n_places == TOOL_PLACES_MAX)
                return err_set(err, EINVAL, "a verb has at most %d arguments", TOOL_PLACES_MAX);

        const struct tool_place *before = verb->n_places ? &verb->places[verb->n_places - 1] : NULL;
        if (before && before->repeats)
                return err_set(err, EINVAL, "nothing can stand behind an argument that is repeated");
        if (before && before->optional && !place.optional)
                return err_set(err, EINVAL, "an argument that must be there cannot stand behind one that need not");

        verb->places[verb->n_places++] = place;
        return 0;
}

static int word_parse(struct str token, struct tool_verb *verb, struct err *err) {
        if (!is_plain(token, "-_."))
                return err_set(err, EINVAL, "%s is neither a word, nor an option, nor a <type>", show(token).text);

        if (verb->n_options || verb->n_places)
                return err_set(err, EINVAL,
                               "the word %s stands behind options or arguments: the words of a verb come first",
                               show(token).text);

        if (verb->n_words == TOOL_WORDS_MAX)
                return err_set(err, EINVAL, "a verb has at most %d words", TOOL_WORDS_MAX);

        verb->words[verb->n_words++] = token;
        return 0;
}

static int token_parse(struct str token, struct tool_verb *verb, struct err *err) {
        switch (token.p[0]) {
        case '+':
                return always_parse(token, verb, err);
        case '-':
                return option_parse(token, verb, err);
        case '<':
                return place_parse(token, verb, err);
        default:
                return word_parse(token, verb, err);
        }
}

int tool_verb_parse(struct str line, struct tool_verb *ret, struct err *err) {
        struct str rest = line, token;

        *ret = (struct tool_verb){ .line = line };
        if (line.n > TOOL_LINE_MAX)
                return err_set(err, EINVAL, "a line of a grammar has at most %d bytes", TOOL_LINE_MAX);

        while (str_split(&rest, ' ', &token)) {
                int r = 0;

                if (token.n)
                        r = token_parse(token, ret, err);

                if (r < 0)
                        return r;
        }

        if (ret->n_words == 0)
                return err_set(err, EINVAL, "a verb begins with its word, as in \"pr view <int>\"");

        return 0;
}

const struct tool_option *tool_verb_option(const struct tool_verb *verb, struct str name) {
        for (size_t i = 0; i < verb->n_options; i++) {
                const struct tool_option *option = &verb->options[i];

                if (!option->always &&
                    (str_eq(option->name, name) || (option->letter.n && str_eq(option->letter, name))))
                        return option;
        }

        return NULL;
}

bool tool_verb_same_words(const struct tool_verb *one, const struct tool_verb *other) {
        if (one->n_words != other->n_words)
                return false;
        for (size_t i = 0; i < one->n_words; i++)
                if (!str_eq(one->words[i], other->words[i]))
                        return false;
        return true;
}

bool tool_verb_has_type(const struct tool_verb *verb, enum tool_type type) {
        for (size_t i = 0; i < verb->n_options; i++)
                if (verb->options[i].slot.type == type)
                        return true;
        for (size_t i = 0; i < verb->n_places; i++)
                if (verb->places[i].slot.type == type)
                        return true;
        return false;
}

int tool_never_parse(struct str text, struct tool_never *ret, struct err *err) {
        ptrdiff_t colon = str_find(text, ':');
        struct str word = colon > 0 ? str_trim(str_first(text, (size_t)colon)) : str_n(NULL, 0);
        enum tool_never_kind kind = word.n && word.p[0] == '-' ? TOOL_NEVER_OPTION : TOOL_NEVER_VERB;

        if (word.n > 2 && word.p[0] == '<' && word.p[word.n - 1] == '>') {
                kind = TOOL_NEVER_ARGUMENT;
                word = str_n(word.p + 1, word.n - 2);
        }

        if (!is_plain(word, "-_. "))
                return err_set(err, EINVAL, "%s: write WORD: REASON, as \"--exec: it runs a program\"",
                               show(text).text);

        struct str reason = str_trim(str_skip(text, (size_t)colon + 1));
        if (reason.n == 0)
                return err_set(err, EINVAL, "%s: the reason is missing", show(text).text);

        *ret = (struct tool_never){ kind, word, reason };
        return 0;
}

/* --- what is asked about --- */

static int ask_word_add(struct tool_ask *ask, struct str word, struct err *err) {
        bool option = word.p[0] == '-';
        size_t *n = option ? &ask->n_options : &ask->n_words;

        if (option ? !is_long(word) && !is_letter(word) : !is_plain(word, "-_."))
                return err_set(err, EINVAL, "%s is neither a word of a verb nor an option, as in \"push --atomic\"",
                               show(word).text);
        if (!option && ask->n_options)
                return err_set(err, EINVAL, "the word %s stands behind an option: the words of the verb come first",
                               show(word).text);
        if (*n == TOOL_WORDS_MAX)
                return err_set(err, EINVAL, "at most %d words and %d options", TOOL_WORDS_MAX, TOOL_WORDS_MAX);

        if (option)
                ask->options[(*n)++] = word;
        else
                ask->words[(*n)++] = word;

        return 0;
}

int tool_ask_parse(struct str text, struct tool_ask *ret, struct err *err) {
        struct str rest = text, word;

        *ret = (struct tool_ask){ 0 };
        if (str_is(text, "*"))
                return 0;

        while (str_split(&rest, ' ', &word)) {
                int r = 0;

                if (word.n)
                        r = ask_word_add(ret, word, err);

                if (r < 0)
                        return r;
        }

        if (ret->n_words == 0)
                return err_set(err, EINVAL, "%s: name the words of a verb, as \"pr create\", or \"*\" for every call",
                               show(text).text);

        return 0;
}

bool tool_ask_names(const struct tool_ask *ask, const struct tool_verb *verb) {
        if (ask->n_words > verb->n_words)
                return false;

        for (size_t i = 0; i < ask->n_words; i++)
                if (!str_eq(ask->words[i], verb->words[i]))
                        return false;
        for (size_t i = 0; i < ask->n_options; i++)
                if (!tool_verb_option(verb, ask->options[i]))
                        return false;

        return true;
}
