/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expansion of parameters whose value is known. The operators that scripts and evasions use are worked out on known
 * text: defaults, substrings, prefixes and suffixes, replacement, upper and lower case, items of arrays, indirection.
 * Whatever else is written there makes the result unknown.
 */
#include "shell/parameter.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "shell/variables.h"

enum { EXPANDED_MAX = 8192 };

static struct sh_value value_text(struct sh_arg text) {
        return (struct sh_value){ .text = text };
}

static bool is_known(const struct sh_value *value) {
        return value && !value->array && !value->text.unknown && !str_has_nul(value->text.text);
}

/* What the shell sets itself, as long as the command does not. */
static bool builtin_value(struct str name, struct sh_value *ret) {
        static const struct {
                const char *name, *text;
        } known[] = { { "HOME", "~" }, { "PWD", "." }, { "TMPDIR", "/tmp" } };

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
                if (str_is(name, known[i].name)) {
                        *ret = value_text((struct sh_arg){ .text = str_of(known[i].text) });
                        return true;
                }

        return false;
}

static struct sh_value item_of(const struct sh_value *array, size_t at) {
        if (at < array->n)
                return value_text(array->items[at]);
        return value_text((struct sh_arg){ .text = STR("") });
}

/* $1: of what `set` or the call of a function gave. */
static bool parameter_positional(struct judge *judge, struct str name, struct sh_value *ret) {
        const struct sh_value *all = variables_pick(judge, STR("@"));
        uint64_t at;

        if (!all || !all->array || !str_to_u64(name, 1000, &at) || at == 0)
                return false;
        *ret = item_of(all, (size_t)at - 1);
        return true;
}

/* Its value, whole: an array when it is one. */
static bool variable_value(struct judge *judge, struct str name, struct sh_value *ret) {
        const struct sh_value *value;

        if (name.n && ascii_is_digit(name.p[0]) && !str_is(name, "0"))
                return parameter_positional(judge, name, ret);

        value = variables_pick(judge, str_is(name, "*") ? STR("@") : name);
        if (value) {
                *ret = *value;
                return true;
        }

        return !variables_find(judge, name) && builtin_value(name, ret);
}

/* --- operators ---------------------------------------------------------------------------------------------------- */

/* With * and ? as wildcards; [ is not understood. */
static bool glob_is(struct str pattern, struct str text, unsigned *budget) {
        if (*budget == 0)
                return false;

        --*budget;
        if (pattern.n == 0)
                return text.n == 0;

        if (pattern.p[0] == '*')
                return glob_is(str_skip(pattern, 1), text, budget) ||
                       (text.n && glob_is(pattern, str_skip(text, 1), budget));

        if (text.n == 0 || (pattern.p[0] != '?' && pattern.p[0] != text.p[0]))
                return false;

        return glob_is(str_skip(pattern, 1), str_skip(text, 1), budget);
}

/* # ## % %%: the shortest or longest match at one end goes. */
static bool cut_end(struct str text, char end, bool longest, struct str pattern, struct str *ret) {
        unsigned budget = 4000;

        if (str_find(pattern, '[') >= 0 || str_find(pattern, '\\') >= 0)
                return false;

        for (size_t i = 0; i <= text.n; i++) {
                size_t n = longest ? text.n - i : i;
                struct str piece = end == '#' ? str_first(text, n) : str_skip(text, text.n - n);
                if (glob_is(pattern, piece, &budget)) {
                        *ret = end == '#' ? str_skip(text, n) : str_first(text, text.n - n);
                        return true;
                }
        }

        *ret = text;
        return budget > 0;
}

static bool read_number(struct str s, ptrdiff_t *ret) {
        uint64_t n;
        s = str_trim(s);
        bool negative = s.n && s.p[0] == '-';
        if (!str_to_u64(str_skip(s, negative), 100000, &n))
                return false;
        *ret = negative ? -(ptrdiff_t)n : (ptrdiff_t)n;
        return true;
}

/* ${x:FROM:COUNT} */
static bool parameter_substring(struct str text, struct str operand, struct str *ret) {
        ptrdiff_t colon = str_find(operand, ':'), from, count = (ptrdiff_t)text.n;

        if (!read_number(colon < 0 ? operand : str_first(operand, (size_t)colon), &from))
                return false;
        if (colon >= 0 && !read_number(str_skip(operand, (size_t)colon + 1), &count))
                return false;
        if (from < 0)
                from += (ptrdiff_t)text.n;
        if (from < 0 || count < 0)
                return false;

        *ret = str_first(str_skip(text, (size_t)from), (size_t)count);
        return true;
}

static bool is_plain(struct str pattern) {
        for (size_t i = 0; i < pattern.n; i++)
                if (strchr("*?[\\", pattern.p[i]))
                        return false;
        return pattern.n > 0;
}

/* ${x/OLD/NEW}, ${x//OLD/NEW}: OLD without wildcards. */
static bool parameter_replaced(struct judge *judge, struct str text, struct str operand, struct str *ret) {
        cleanup(buf_done) struct buf out = BUF(EXPANDED_MAX);
        bool all = operand.n && operand.p[0] == '/', again = true;

        operand = str_skip(operand, all);
        ptrdiff_t slash = str_find(operand, '/');
        struct str old = slash < 0 ? operand : str_first(operand, (size_t)slash);
        struct str new = slash < 0 ? STR("") : str_skip(operand, (size_t)slash + 1);
        int r = 0;

        if (!is_plain(old))
                return false;

        while (text.n && r == 0) {
                bool here = again && str_starts(text, old);

                if (here)
                        r = buf_append(&out, new);
                else
                        r = buf_add_char(&out, text.p[0]);
                text = str_skip(text, here ? old.n : 1);
                again = again && (all || !here);
        }

        *ret = arena_copy(&judge->arena, buf_str(&out));
        return r == 0 && ret->p;
}

/* ${x^^}, ${x,,}, ${x^}, ${x,} */
static bool parameter_recased(struct judge *judge, struct str text, struct str operand, struct str *ret) {
        bool all = operand.n == 2 && operand.p[0] == operand.p[1], upper = operand.p[0] == '^';
        char *out = arena_get(&judge->arena, text.n + 1);

        if (!out || (operand.n != 1 && !all))
                return false;

        for (size_t i = 0; i < text.n; i++) {
                char lower = ascii_lower(text.p[i]);
                bool letter = lower >= 'a' && lower <= 'z';

                out[i] = text.p[i];
                if (letter && (all || i == 0))
                        out[i] = upper ? (char)(lower - ('a' - 'A')) : lower;
        }

        *ret = str_n(out, text.n);
        return true;
}

/* :- - := = :+ + :? ?: the word behind counts when the variable is not set, or when it is. */
static bool default_value(struct judge *judge, const struct sh_part *part, bool known, struct sh_value value,
                          struct sh_arg operand, struct sh_value *ret) {
        size_t at = operand.text.p[0] == ':';
        char operator= operand.text.p[at];
        struct sh_value word = value_text(operand);

        word.text.text = str_skip(operand.text, at + 1);
        word.text.unknown = str_has_nul(word.text.text);

        bool maybe = !known || (!value.array && str_has_nul(value.text.text));
        bool empty = !maybe && at && !value.array && value.text.text.n == 0;
        bool uses_word = operator== '+' ? !empty : empty;
        struct sh_value otherwise = operator== '+' ? value_text((struct sh_arg){ .text = STR("") }) : value;

        if (operator== '?') {
                *ret = value;
                return known;
        }

        if (maybe) { /* both are tried */
                size_t choice = variables_choose(judge, part->word->raw, 2);

                if (operator== '=' && !known) {
                        const struct sh_arg either[] = { word.text, { .text = str_n("", 1), .unknown = true } };
                        variables_set_any(judge, part->text, either, 2);
                }

                if (choice == 0) {
                        *ret = word;
                        return true;
                }

                *ret = otherwise;
                return operator== '+' || known;
        }

        if (operator== '=' && uses_word)
                variables_set(judge, part->text, word.text);

        *ret = uses_word ? word : otherwise;
        return true;
}

static bool text_operator(struct judge *judge, struct str text, struct str operand, struct str *ret) {
        char first = operand.p[0];
        bool twice = operand.n > 1 && operand.p[1] == first;

        if (first == '#' || first == '%')
                return cut_end(text, first, twice, str_skip(operand, twice ? 2 : 1), ret);
        if (first == ':')
                return parameter_substring(text, str_skip(operand, 1), ret);
        if (first == '/')
                return parameter_replaced(judge, text, str_skip(operand, 1), ret);
        if (first == '^' || first == ',')
                return parameter_recased(judge, text, operand, ret);

        return false;
}

/* ${a[@]}, ${a[2]}: *ret is all of it, or the item. */
static bool parameter_indexed(struct sh_value value, struct str index, struct sh_value *ret) {
        uint64_t at;

        if (!value.array) { /* a variable is an array of one */
                *ret = value;
                return str_is(index, "@") || str_is(index, "*") || str_is(index, "0");
        }

        if (str_is(index, "@") || str_is(index, "*")) {
                *ret = value;
                return true;
        }

        if (!str_to_u64(index, 1000, &at))
                return false;

        *ret = item_of(&value, (size_t)at);
        return true;
}

static bool is_default(struct str operand) {
        size_t at = operand.p[0] == ':';
        return at < operand.n && strchr("-=+?", operand.p[at]);
}

static bool with_operand(struct judge *judge, const struct sh_part *part, struct sh_value *ret) {
        struct sh_arg operand = sh_word_to_arg(judge, part->word);
        struct sh_value value = { 0 };
        bool known = variable_value(judge, part->text, &value);
        struct str text;

        if (operand.text.n == 0)
                return false;

        if (operand.text.p[0] == '[') {
                ptrdiff_t close = str_find(operand.text, ']');
                bool last = close > 0 && (size_t)close + 1 == operand.text.n;

                return known && last && parameter_indexed(value, str_n(operand.text.p + 1, (size_t)close - 1), ret);
        }

        if (is_default(operand.text))
                return default_value(judge, part, known, value, operand, ret);
        if (known && value.array && value.n > 0 && !str_is(part->text, "@"))
                value = item_of(&value, 0);
        if (!known || !is_known(&value) || operand.unknown)
                return false;
        if (!text_operator(judge, value.text.text, operand.text, &text))
                return false;

        *ret = value;
        ret->text.text = text;

        return true;
}

/* ${!x}: the variable whose name x holds. */
static bool parameter_indirect(struct judge *judge, struct str name, struct sh_value *ret) {
        struct sh_value pointer = { 0 };

        if (!variable_value(judge, name, &pointer) || !is_known(&pointer))
                return false;
        return variable_value(judge, pointer.text.text, ret) && !ret->array;
}

bool parameter_value(struct judge *judge, const struct sh_part *part, struct sh_value *ret) {
        struct str name = part->text;
        bool operand = part->word && part->word->raw.n > 0;

        if (name.n > 1 && (name.p[0] == '!' || name.p[0] == '#'))
                return name.p[0] == '!' && !operand && parameter_indirect(judge, str_skip(name, 1), ret);
        if (operand)
                return with_operand(judge, part, ret);
        if (!variable_value(judge, name, ret))
                return false;
        if (ret->array && !str_is(name, "@") && !str_is(name, "*"))
                *ret = item_of(ret, 0); /* $a is ${a[0]} */

        return true;
}
