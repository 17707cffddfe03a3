/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The author of the policy is trusted; files that the sandbox can write are not. So nothing needs to be proved about a
 * command: it is enough to find every path that it names in an ordinary way. The text is split wherever a shell could
 * split it, quotes are removed, and quoted text is split again (sh -c '...'). So this finds at least the words that a
 * shell would see; own_places.c judges each.
 *
 * A word is text with two additions: OWN_UNKNOWN stands for what is known only when the command runs (the output of a
 * command, `for`, `read`, arguments), and CHOICE, NEXT and CHOSEN are around and between texts of which any may stand
 * there (braces, defaults, the values of a variable). An assignment may hold for one command only, so a variable has
 * all values that the command gives it, and that of the environment. Every choice is judged.
 */
#include "policy/tools/own_commands.h"

#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "policy/paths/paths.h"
#include "policy/tools/own_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 40, WORD_MAX = 65536, CHOICES_MAX = 1024, WORDS_MAX = 65536 };
enum { CHOICE = '\002', NEXT = '\003', CHOSEN = '\004' };

static const char marks[] = "\001\002\003\004";

struct word {
        struct buf text;
        unsigned depth;
        bool looks; /* into commands inside, $(...) */
};

static int check_text(struct own_check *check, struct str text, unsigned depth, bool plain);

static int refuse_size(const struct own_check *check) {
        return err_set(check->err, E2BIG,
                       "%s runs outside the sandbox, and is too long or too nested to check where its paths lead: put "
                       "it into a script outside of the workspace",
                       check->what);
}

/* Lexical units */

static bool is_cut(char ch) {
        return ch != '\0' && strchr(" \t\n;&|<>()`{}=,:!", ch) != NULL;
}

/* Not in a word, whatever stands around it. */
static bool is_blank_or_operator(char ch) {
        return ch != '\0' && strchr(" \t\n;&|<>()", ch) != NULL;
}

static bool is_name_char(char ch) {
        return ascii_is_alnum(ch) || ch == '_';
}

static size_t name_length(struct str text) {
        size_t n = 0;

        if (text.n > 0 && ascii_is_digit(text.p[0]))
                return 1;
        while (n < text.n && is_name_char(text.p[n]))
                n++;

        return n;
}

static size_t unit_end(struct str text, size_t at, unsigned depth);

/* Behind what closes the parenthesis or brace before `at`; the whole text if nothing does. */
static size_t closed_end(struct str text, size_t at, char open, char close, unsigned depth) {
        for (unsigned n = 1; at < text.n; at = unit_end(text, at, depth + 1)) {
                if (text.p[at] == open)
                        n++;
                if (text.p[at] == close && --n == 0)
                        return at + 1;
        }

        return text.n;
}

/* Behind the quote that closes the one before `at`. */
static size_t quote_end(struct str text, size_t at, char quote, unsigned depth) {
        while (at < text.n && text.p[at] != quote) {
                bool unit = quote == '"' && strchr("\\$`", text.p[at]);

                if (unit && !(text.p[at] == '$' && at + 1 < text.n && text.p[at + 1] == '\''))
                        at = unit_end(text, at, depth + 1);
                else
                        at += quote != '\'' && text.p[at] == '\\' ? 2 : 1;
        }

        return min_of(at + 1, text.n);
}

/* Of $'...', where a backslash counts. */
static size_t escaped_end(struct str text, size_t at) {
        while (at < text.n && text.p[at] != '\'')
                at += text.p[at] == '\\' ? 2 : 1;

        return min_of(at + 1, text.n);
}

static size_t dollar_end(struct str text, size_t at, unsigned depth) {
        char next = at + 1 < text.n ? text.p[at + 1] : ' ';

        if (next == '(')
                return closed_end(text, at + 2, '(', ')', depth);
        if (next == '{')
                return closed_end(text, at + 2, '{', '}', depth);
        if (next == '\'')
                return escaped_end(text, at + 2);
        if (strchr("@*#?!-$", next))
                return at + 2;

        return at + 1 + name_length(str_skip(text, at + 1));
}

/* Behind what stands at `at`: a character, or what belongs together ("...", $(...), ${...}, $NAME). */
static size_t unit_end(struct str text, size_t at, unsigned depth) {
        char ch = text.p[at];

        if (depth > DEPTH_MAX)
                return text.n;
        if (ch == '\\')
                return min_of(at + 2, text.n);
        if (ch == '\'' || ch == '"' || ch == '`')
                return quote_end(text, at + 1, ch, depth);
        if (ch == '$')
                return dollar_end(text, at, depth);

        return at + 1;
}

/* Behind the braces {A,B} or {1..9} at `at`; 0: there are none. */
static size_t braces_end(struct str text, size_t at) {
        bool several = false;
        unsigned open = 0;

        if (text.p[at] != '{')
                return 0;

        for (; at < text.n && !is_blank_or_operator(text.p[at]); at = unit_end(text, at, 0)) {
                char ch = text.p[at];

                several = several || (open == 1 && ch == ',') ||
                          (open == 1 && ch == '.' && at + 1 < text.n && text.p[at + 1] == '.');
                if (ch == '{')
                        open++;
                if (ch == '}' && --open == 0)
                        return several ? at + 1 : 0;
        }

        return 0;
}

/* Behind the pattern [...] at `at`; 0: there is none. */
static size_t bracket_end(struct str text, size_t at) {
        size_t first = at + 1;

        if (text.p[at] != '[')
                return 0;
        if (first < text.n && (text.p[first] == '!' || text.p[first] == '^'))
                first++;

        for (size_t i = first; i < text.n; i = unit_end(text, i, 0)) {
                if (is_blank_or_operator(text.p[i]) || strchr("/{}", text.p[i]))
                        return 0;
                if (text.p[i] == '[' && i + 1 < text.n && strchr(":.=", text.p[i + 1])) {
                        char end[] = { text.p[i + 1], ']' };
                        const char *closed = memmem(text.p + i + 2, text.n - i - 2, end, sizeof end);
                        if (closed)
                                i = (size_t)(closed - text.p) + 1;
                } else if (text.p[i] == ']' && i > first) {
                        return i + 1;
                }
        }

        return 0;
}

/* Choices */

typedef int choice_fn(struct own_check *check, struct str text, void *data);

/* The end of one choice: NEXT or CHOSEN. */
static size_t choice_end(struct str text, size_t at) {
        unsigned open = 0;

        for (; at < text.n; at++) {
                if (open == 0 && (text.p[at] == NEXT || text.p[at] == CHOSEN))
                        break;
                if (text.p[at] == CHOICE)
                        open++;
                if (text.p[at] == CHOSEN)
                        open--;
        }

        return at;
}

/* The text with each choice in turn. `left` bounds their number. */
static int each_choice(struct own_check *check, struct str text, unsigned depth, unsigned *left, choice_fn *fn,
                       void *data) {
        ptrdiff_t at = str_find(text, CHOICE);
        int r = 0;

        if (*left == 0 || depth > 2 * DEPTH_MAX)
                return refuse_size(check);
        if (at < 0) {
                --*left;
                return fn(check, text, data);
        }

        size_t close = (size_t)at;
        do
                close = choice_end(text, close + 1);
        while (close < text.n && text.p[close] != CHOSEN);

        struct str rest = str_skip(text, close + 1);
        for (size_t from = (size_t)at + 1; r == 0 && from <= close;) {
                size_t end = choice_end(text, from);
                cleanup(free_ptr) char *chosen =
                    str_format("%.*s%.*s%.*s", (int)at, text.p, (int)(end - from), text.p + from, STR_FMT(rest));
                if (!chosen)
                        return own_no_memory(check);

                r = each_choice(check, str_of(chosen), depth + 1, left, fn, data);
                from = end + 1;
        }

        return r;
}

static int for_choices(struct own_check *check, const struct word *word, choice_fn *fn, void *data) {
        unsigned left = CHOICES_MAX;

        return each_choice(check, buf_str(&word->text), 0, &left, fn, data);
}

/* Variables */

static int variable_add(struct own_check *check, struct str value, void *data) {
        struct str name = *(struct str *)data;

        for (size_t i = 0; i < check->n_set; i++)
                if (str_is(name, check->set[i].name) && str_is(value, check->set[i].value))
                        return 0;

        if (check->n_set == OWN_SET_MAX)
                return err_set(check->err, E2BIG,
                               "%s sets variables to more than %d values, so where they lead cannot be checked: put it "
                               "into a script outside of the workspace",
                               check->what, OWN_SET_MAX);

        cleanup(free_ptr) char *owned = str_dup(value);
        cleanup(free_ptr) char *owned_name = str_dup(name);
        if (!owned || !owned_name)
                return own_no_memory(check);

        check->set[check->n_set].name = take_ptr(&owned_name);
        check->set[check->n_set++].value = take_ptr(&owned);
        return 0;
}

static int put(struct own_check *check, struct word *word, struct str text) {
        return buf_append(&word->text, text) < 0 ? refuse_size(check) : 0;
}

static int put_char(struct own_check *check, struct word *word, char ch) {
        return put(check, word, str_n(&ch, 1));
}

/* All values as choices; false: nobody has set it yet. */
static bool put_values(struct own_check *check, struct str name, struct word *word, int *ret) {
        size_t at = 0, n = 0, start = word->text.n;

        *ret = 0;
        for (const char *value; *ret == 0 && (value = own_value(check, name, &at)); n++) {
                *ret = put_char(check, word, n == 0 ? CHOICE : NEXT);
                if (*ret == 0)
                        *ret = put(check, word, str_of(strpbrk(value, marks + 1) ? OWN_UNKNOWN_TEXT : value));
        }

        if (*ret == 0 && n > 1)
                *ret = put_char(check, word, CHOSEN);
        if (*ret == 0 && n == 1) { /* no choice */
                memmove(word->text.p + start, word->text.p + start + 1, word->text.n - start - 1);
                word->text.n--;
        }

        return n > 0;
}

/* Expansion */

static int expand(struct own_check *check, struct str text, bool quoted, struct word *word);

/* The output of a command: $(...) or `...`. What it runs is looked at. */
static int put_output(struct own_check *check, struct str command, struct word *word) {
        bool arithmetic = command.n > 0 && command.p[0] == '(' && closed_end(command, 1, '(', ')', 0) == command.n;
        int r = put_char(check, word, OWN_UNKNOWN);

        if (r == 0 && word->looks)
                r = check_text(check, command, word->depth + 1, arithmetic);

        return r;
}

/* The default of ${NAME:-DEFAULT}, ${NAME:=DEFAULT}, or the other text of ${NAME:+TEXT}. */
static int put_default(struct own_check *check, struct str name, char how, struct str text, struct word *word) {
        struct word other = { .text = BUF(WORD_MAX), .depth = word->depth, .looks = word->looks };
        int r = expand(check, text, false, &other);

        if (r == 0 && how == '=')
                r = for_choices(check, &other, variable_add, &name);
        if (r == 0)
                r = put_char(check, word, CHOICE);

        bool is_variable = is_name_char(name.p[0]) && !ascii_is_digit(name.p[0]), valued = true;
        if (r == 0 && how != '+' && is_variable)
                valued = put_values(check, name, word, &r);
        else if (r == 0 && how != '+')
                r = put_char(check, word, OWN_UNKNOWN); /* an argument */
        if (r == 0 && valued)
                r = put_char(check, word, NEXT);
        if (r == 0)
                r = put(check, word, buf_str(&other.text));

        buf_done(&other.text);
        return r < 0 ? r : put_char(check, word, CHOSEN);
}

/* "NAME", "NAME:-DEFAULT" and the like; whatever else is done to a value gives one that is not known. */
static int put_braced(struct own_check *check, struct str text, struct word *word) {
        size_t n = text.n > 0 && strchr("@*#?!-$", text.p[0]) ? 1 : name_length(text);
        struct str name = str_first(text, n), rest = str_skip(text, n);
        size_t colon = str_starts(rest, STR(":")) ? 1 : 0;
        char how = rest.n > colon ? rest.p[colon] : '\0';
        int r = 0;

        if (n > 0 && how && strchr("-=+", how))
                return put_default(check, name, how, str_skip(rest, colon + 1), word);
        if (n > 0 && (rest.n == 0 || how == '?') && put_values(check, name, word, &r))
                return r;

        ptrdiff_t with = how == '/' ? str_find(str_skip(rest, 2), '/') : -1; /* ${NAME/TEXT/WITH} */
        r = put_char(check, word, OWN_UNKNOWN);
        if (r == 0 && word->looks)
                r = check_text(check, rest, word->depth + 1, true);
        if (r == 0 && word->looks && with >= 0)
                r = check_text(check, str_skip(rest, (size_t)with + 3), word->depth + 1, false);

        return r;
}

/* $'...': an escape may be any character. */
static int put_escaped(struct own_check *check, struct str text, struct word *word) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                bool escape = text.p[i] == '\\';
                r = put_char(check, word, escape ? OWN_UNKNOWN : text.p[i]);
                i += escape ? 1 : 0;
        }

        return r;
}

/* Without what closes it, if it is closed. */
static struct str inside(struct str unit, size_t n, char close) {
        struct str text = str_skip(unit, n);

        if (text.n > 0 && text.p[text.n - 1] == close)
                text.n--;

        return text;
}

static int put_dollar(struct own_check *check, struct str unit, struct word *word) {
        char next = unit.n > 1 ? unit.p[1] : '\0';
        int r = 0;

        if (next == '\0')
                return put_char(check, word, '$');
        if (next == '(')
                return put_output(check, inside(unit, 2, ')'), word);
        if (next == '{')
                return put_braced(check, inside(unit, 2, '}'), word);
        if (next == '\'')
                return put_escaped(check, inside(unit, 2, '\''), word);
        if (is_name_char(next) && put_values(check, str_skip(unit, 1), word, &r))
                return r;

        return put_char(check, word, OWN_UNKNOWN);
}

/* {A,B}: choices. {1..9}: one that is not known. */
static int put_braces(struct own_check *check, struct str text, struct word *word) {
        unsigned open = 0;
        size_t from = 0;
        int r = 0;
        bool several = false;

        for (size_t i = 0; r == 0 && i <= text.n; i = i < text.n ? unit_end(text, i, 0) : i + 1) {
                char ch = i < text.n ? text.p[i] : ',';

                if (ch == '{')
                        open++;
                if (ch == '}')
                        open--;
                if (ch != ',' || open > 0)
                        continue;
                if (i == text.n && !several)
                        return put_char(check, word, OWN_UNKNOWN);

                r = put_char(check, word, several ? NEXT : CHOICE);
                if (r == 0)
                        r = expand(check, str_n(text.p + from, i - from), false, word);
                several = true;
                from = i + 1;
        }

        return r < 0 ? r : put_char(check, word, CHOSEN);
}

/* `~/x` where the command sets HOME. */
static int put_home(struct own_check *check, struct word *word) {
        int r = put_char(check, word, CHOICE);

        if (r == 0)
                r = put(check, word, STR("~"));
        if (r == 0)
                r = put_char(check, word, NEXT);
        if (r == 0 && !put_values(check, STR("HOME"), word, &r))
                r = put(check, word, STR("~"));

        return r < 0 ? r : put_char(check, word, CHOSEN);
}

static int put_unit(struct own_check *check, struct str unit, bool quoted, struct word *word) {
        char ch = unit.p[0];

        if (ch == '\\' && unit.n == 2 && unit.p[1] == '\n')
                return 0; /* the line goes on */
        if (ch == '\\')
                return put(check, word, str_skip(unit, 1));
        if (ch == '$')
                return put_dollar(check, unit, word);
        if (ch == '`')
                return put_output(check, inside(unit, 1, ch), word);
        if (ch == '"')
                return expand(check, inside(unit, 1, ch), true, word);
        if (ch == '\'' && !quoted)
                return put(check, word, inside(unit, 1, ch));

        return put(check, word, unit);
}

/* Appends what a shell makes of the text in one word, as far as it is known. */
static int expand(struct own_check *check, struct str text, bool quoted, struct word *word) {
        int r = word->depth > DEPTH_MAX ? refuse_size(check) : 0;

        word->depth++;
        for (size_t i = 0, end; r == 0 && i < text.n; i = end) {
                char ch = text.p[i], next = i + 1 < text.n ? text.p[i + 1] : '\0';
                size_t braces = quoted ? 0 : braces_end(text, i);

                end = unit_end(text, i, 0);
                if (quoted && (ch == '\'' || (ch == '$' && next == '\'')))
                        end = i + 1;

                if (braces > 0) {
                        r = put_braces(check, str_n(text.p + i + 1, braces - i - 2), word);
                        end = braces;
                } else if (!quoted && i == 0 && ch == '~' && (next == '\0' || next == '/') && check->n_set > 0) {
                        r = put_home(check, word);
                } else if (quoted || ch != '$' || next != '"') { /* $"..." is a quote */
                        r = put_unit(check, str_n(text.p + i, end - i), quoted, word);
                }
        }

        word->depth--;
        return r;
}

/* Commands and their words */

/* Commands that only print their arguments, or change text: what begins in an unknown way there leads nowhere, but for
 * options that name a script. */
static const struct {
        const char *name, *letters, *option;
} text_commands[] = {
        { "echo", "", NULL },     { "printf", "", NULL }, { "jq", "", NULL },       { "grep", "", NULL },
        { "cut", "", NULL },      { "tr", "", NULL },     { "date", "", NULL },     { "test", "", NULL },
        { "[", "", NULL },        { "pass", "", NULL },   { "lpass", "", NULL },    { "secret-tool", "", NULL },
        { "security", "", NULL }, { "expr", "", NULL },   { "sed", "f", "--" },     { "awk", "fEil", "--" },
        { "gawk", "fEil", "--" }, { "mawk", "fW", "--" }, { "curl", "K", "--con" },
};

enum { TEXT_COMMANDS = sizeof text_commands / sizeof text_commands[0] };

struct command {
        struct str source; /* the text that its words are taken from */
        unsigned depth;
        bool plain; /* all of the source is an argument of a command that only handles text */
        bool begun, in_value;
        size_t kind; /* in text_commands; TEXT_COMMANDS: another */
        char end;    /* of this word */
        bool target; /* it is where the command goes */
};

static bool is_keyword(struct str word) {
        static const char *const all[] = { "if", "then", "elif", "else", "while", "until", "do" };

        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
                if (str_is(word, all[i]))
                        return true;

        return false;
}

/* Whether the next words are arguments of a command that only handles text. */
static void command_note(struct command *command, struct str word) {
        if (!command->begun) {
                command->in_value = command->in_value || command->end == '=';
                if (command->in_value || is_keyword(word))
                        return;

                command->begun = true;
                command->kind = 0;
                while (command->kind < TEXT_COMMANDS && !str_is(word, text_commands[command->kind].name))
                        command->kind++;
                return;
        }

        if (command->kind == TEXT_COMMANDS || word.n < 2 || word.p[0] != '-')
                return;

        const char *option = text_commands[command->kind].option;
        bool is_long = word.p[1] == '-', script = is_long && option && str_starts(word, str_of(option));
        for (size_t i = 1; !is_long && i < word.n; i++)
                script = script || strchr(text_commands[command->kind].letters, word.p[i]);
        if (script)
                command->kind = TEXT_COMMANDS;
}

static void command_cut(struct own_check *check, struct command *command) {
        char ch = command->end;

        if (ch == ' ' || ch == '\t')
                command->in_value = false;
        if (ch == '<' || ch == '>')
                command->begun = true; /* the next word is a file, not the command's name */
        if (!strchr(";&|(\n`{}!", ch))
                return;

        command->begun = command->in_value = false;
        command->kind = TEXT_COMMANDS;
        check->names = OWN_NAMES_NONE;
        check->goes_next = false;
}

/* `for NAME in ...` and `read NAME ...`: what they get is not known. */
static int check_named(struct own_check *check, struct str word) {
        static const char *const several[] = { "read", "mapfile", "readarray", "getopts", "-v" };
        bool is_name = word.n > 0 && name_length(word) == word.n;
        enum own_names names = check->names;

        if (str_is(word, "for") || str_is(word, "select"))
                check->names = OWN_NAMES_ONE;
        for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
                if (str_is(word, several[i]))
                        check->names = OWN_NAMES_ALL;
        if (names == OWN_NAMES_NONE || names != check->names || !is_name)
                return 0;

        if (names == OWN_NAMES_ONE)
                check->names = OWN_NAMES_NONE;
        return variable_add(check, STR(OWN_UNKNOWN_TEXT), &word);
}

/* A word is whole: it is looked at, and once more inside if a shell could cut it further. */
static int check_choice(struct own_check *check, struct str word, void *data) {
        const struct command *command = data;
        bool plain = command->plain || (command->begun && command->kind < TEXT_COMMANDS), again = false;

        if (++check->words > WORDS_MAX)
                return refuse_size(check);

        check->only_text = plain;
        check->goes_next = command->target;
        int r = own_check_word(check, word);
        if (r == 0 && !command->plain)
                r = check_named(check, word);

        for (size_t i = 0; i < word.n; i++)
                again = again || is_cut(word.p[i]) || strchr("'\"\\$", word.p[i]);
        if (r < 0 || !again || str_eq(word, command->source))
                return r;

        return check_text(check, word, command->depth + 1, plain);
}

static int check_word(struct own_check *check, struct command *command, struct str raw) {
        struct word word = { .text = BUF(WORD_MAX), .depth = command->depth, .looks = true };
        int r = expand(check, raw, false, &word);

        command->target = check->goes_next;
        if (r == 0 && word.text.n > 0) {
                command_note(command, buf_str(&word.text));
                r = for_choices(check, &word, check_choice, command);
        }

        buf_done(&word.text);
        return r;
}

/* NAME=VALUE or NAME+=VALUE: the text behind the '='. */
static int check_assignment(struct own_check *check, struct str name, struct str text) {
        struct word value = { .text = BUF(WORD_MAX) };
        bool more = str_ends(name, STR("+"));
        size_t n = 0;
        int r = 0;

        if (more)
                name.n--;
        if (name.n == 0 || ascii_is_digit(name.p[0]) || name_length(name) != name.n)
                return 0;

        while (n < text.n && !is_blank_or_operator(text.p[n]))
                n = unit_end(text, n, 0);

        if (n < text.n && n == 0 && text.p[0] == '(') /* a list */
                r = put_char(check, &value, OWN_UNKNOWN);
        if (r == 0 && more)
                (void)put_values(check, name, &value, &r);
        if (r == 0)
                r = expand(check, str_first(text, n), false, &value);
        if (r == 0)
                r = for_choices(check, &value, variable_add, &name);

        buf_done(&value.text);
        return r;
}

/* A word ends before `at`. */
static int check_cut(struct own_check *check, struct command *command, size_t from, size_t at) {
        struct str raw = str_n(command->source.p + from, at - from);
        int r = 0;

        command->end = at < command->source.n ? command->source.p[at] : '\n';
        if (command->end == '=')
                r = check_assignment(check, raw, str_skip(command->source, at + 1));
        if (r == 0)
                r = check_word(check, command, raw);

        command_cut(check, command);
        return r;
}

/* `plain`: the text is an argument of a command that only handles text. */
static int check_text(struct own_check *check, struct str text, unsigned depth, bool plain) {
        struct command command = { .source = text, .depth = depth, .plain = plain, .kind = TEXT_COMMANDS };
        enum own_names names = check->names;
        bool goes_next = check->goes_next;
        size_t from = 0;
        int r = 0;

        if (depth > DEPTH_MAX)
                return refuse_size(check);

        check->names = OWN_NAMES_NONE;
        check->goes_next = false;
        for (size_t i = 0, end; r == 0 && i < text.n; i = end) {
                size_t bracket = bracket_end(text, i), braces = braces_end(text, i);

                end = bracket + braces > 0 ? bracket + braces : unit_end(text, i, 0);
                if (bracket > 0) { /* a list in another language looks like a pattern */
                        r = check_text(check, str_n(text.p + i + 1, bracket - i - 2), depth + 1, true);
                } else if (text.p[i] == '[' && i == from && end < text.n && text.p[end] != ' ') {
                        from = end;
                } else if (braces == 0 && is_cut(text.p[i]) && text.p[i] != '`') {
                        r = check_cut(check, &command, from, i);
                        from = end;
                }
        }

        if (r == 0)
                r = check_cut(check, &command, from, text.n);

        check->names = names;
        check->goes_next = goes_next;
        return r;
}

static void check_forget(struct own_check *check) {
        check->goes = check->goes_next = false;
        check->names = OWN_NAMES_NONE;
        check->matches = check->words = 0;

        while (check->n_bases > 0)
                free(check->bases[--check->n_bases]);
}

static int check_command(struct own_check *check, const char *command) {
        int r = 0;

        if (strlen(command) >= WORD_MAX)
                return err_set(check->err, E2BIG, "%s: its command is too long", check->what);
        if (strpbrk(command, marks))
                return err_set(check->err, EINVAL, "%s: its command has control characters", check->what);

        /* Twice: in a loop or a function, what is set below counts above. */
        for (unsigned pass = 0; r == 0 && pass < 2; pass++) {
                r = check_text(check, str_of(command), 0, false);
                check_forget(check);
                if (check->n_set == 0)
                        break;
        }

        while (check->n_set > 0) {
                check->n_set--;
                free(check->set[check->n_set].name);
                free(check->set[check->n_set].value);
        }

        return r;
}

static const char *command_of(const char *source) {
        return source && strncmp(source, "exec:", 5) == 0 ? source + 5 : NULL;
}

/* "NAME=exec:COMMAND" of a tool. */
static const char *tool_command_of(const struct origin_text *word) {
        const char *equals = strchr(word->text, '=');

        if (equals)
                return command_of(equals + 1);

        return NULL;
}

static bool has_commands(const struct policy *policy) {
        bool any = policy->approval.command != NULL;

        for (size_t i = 0; i < policy->credentials.n; i++)
                any = any || command_of(policy->credentials.p[i].source);
        for (size_t i = 0; i < policy->tool_credentials.n; i++)
                any = any || command_of(policy->tool_credentials.p[i].source);
        for (size_t i = 0; i < policy->bridge.n; i++)
                for (size_t k = 0; k < policy->bridge.p[i].credentials.n; k++)
                        any = any || tool_command_of(&policy->bridge.p[i].credentials.p[k]);

        return any;
}

static int check_credentials(struct own_check *check, const struct credential *list, size_t n) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++) {
                const char *command = command_of(list[i].source), *name = list[i].name;
                cleanup(free_ptr) char *what =
                    str_format("the command of credential '%s'", name ? name : list[i].provider);

                if (!command)
                        continue;

                check->what = what ? what : "the command of a credential";
                r = check_command(check, command);
        }

        return r;
}

/* Commands of a tool's credentials run outside as well, and the tool's own sandbox cannot tell what another one writes.
 */
static int check_tools(struct own_check *check, const struct policy *policy) {
        int r = 0;

        for (size_t i = 0; i < policy->bridge.n; i++) {
                const struct bridge_tool *tool = &policy->bridge.p[i];

                for (size_t k = 0; r == 0 && k < tool->credentials.n; k++) {
                        const char *command = tool_command_of(&tool->credentials.p[k]);
                        cleanup(free_ptr) char *what = str_format("the command of a credential of the tool '%s' (%s)",
                                                                  tool->name, tool->credentials.p[k].origin);

                        if (!command)
                                continue;

                        check->what = what ? what : "the command of a tool's credential";
                        r = check_command(check, command);
                }
        }

        return r;
}

int own_commands_check(const struct policy *policy, char *const *environment, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        struct own_check check = { .home = policy->home, .environment = environment, .err = err };

        if (!has_commands(policy))
                return 0;

        int r = path_rules_compile(policy, &rules, err);
        if (r < 0)
                return r;

        check.rules = rules;
        check.what = "approval.command";
        if (policy->approval.command)
                r = check_command(&check, policy->approval.command);

        if (r == 0)
                r = check_credentials(&check, policy->credentials.p, policy->credentials.n);
        if (r == 0)
                r = check_credentials(&check, policy->tool_credentials.p, policy->tool_credentials.n);
        if (r < 0)
                return r;

        return check_tools(&check, policy);
}
