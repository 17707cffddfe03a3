/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The author of the policy is trusted; files that the sandbox can write are not. So nothing needs to be proved about a
 * command: it is enough to find every path that it names in an ordinary way. The text is split wherever a shell could
 * split it, quotes are removed, and quoted text is split again (sh -c '...'). So this finds at least the words that a
 * shell would see; own_places.c judges each.
 *
 * Variables have the values that the command will get, or that it gives them itself. What is known only when it runs
 * (the output of a command, `for`, `read`, arguments) stands for one name in a path, as `*` does; a path that begins
 * with it is refused. Braces are written out.
 */
#include "policy/tools/own_commands.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "policy/paths/paths.h"
#include "policy/tools/own_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8, WORD_MAX = 65536, BRACES_MAX = 64 };

/* One that is set twice may have either value. */
static int variable_set(struct own_check *check, struct str name, struct str value) {
        size_t i = 0;

        while (i < check->n_set && !str_is(name, check->set[i].name))
                i++;

        if (i == OWN_SET_MAX)
                return err_set(check->err, E2BIG,
                               "%s sets more than %d variables, so where they lead cannot be checked: put it into a "
                               "script outside of the workspace",
                               check->what, OWN_SET_MAX);

        bool again = i < check->n_set && !str_is(value, check->set[i].value);
        cleanup(free_ptr) char *owned = str_dup(again ? STR(OWN_UNKNOWN_TEXT) : value);
        cleanup(free_ptr) char *owned_name = str_dup(name);
        if (!owned || !owned_name)
                return own_no_memory(check);

        if (i == check->n_set)
                check->set[check->n_set++].name = take_ptr(&owned_name);
        else
                free(check->set[i].value);

        check->set[i].value = take_ptr(&owned);
        return 0;
}

static bool is_cut(char ch) {
        return ch != '\0' && strchr(" \t\n;&|<>()`{}=,:!", ch) != NULL;
}

static bool is_name_char(char ch) {
        return ascii_is_alnum(ch) || ch == '_';
}

static int check_text(struct own_check *check, struct str text, unsigned depth);

static size_t name_length(struct str text) {
        size_t n = 0;

        while (n < text.n && is_name_char(text.p[n]))
                n++;

        return n;
}

/* Behind the brace that closes the one before this text; the whole text if none does. */
static size_t brace_end(struct str text) {
        unsigned open = 1;

        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] == '{')
                        open++;
                if (text.p[i] == '}' && --open == 0)
                        return i + 1;
        }

        return text.n;
}

static size_t add_variable(struct own_check *check, struct str text, struct buf *word);

/* What a shell makes of text in one word, as far as it is known: the value of an assignment, or a default. */
static void add_expanded(struct own_check *check, struct str text, struct buf *word) {
        for (size_t i = 0; i < text.n; i++) {
                char ch = text.p[i];

                if (ch == '$')
                        i += add_variable(check, str_skip(text, i), word) - 1;
                else if (ch == '`')
                        (void)buf_add_char(word, OWN_UNKNOWN);
                else if (ch != '"' && ch != '\'' && ch != '\\')
                        (void)buf_add_char(word, ch);
        }
}

/* "{NAME}", "{NAME:-DEFAULT}" and the like; whatever else is done to a value gives one that is not known. */
static size_t add_braced(struct own_check *check, struct str text, struct buf *word) {
        size_t n = name_length(text), end = brace_end(text);
        struct str rest = str_n(text.p + n, end - n);
        const char *value = n > 0 ? own_variable(check, str_first(text, n)) : NULL;

        if (rest.n > 0 && rest.p[rest.n - 1] == '}')
                rest.n--;

        size_t colon = str_starts(rest, STR(":")) ? 1 : 0;
        bool defaults = n > 0 && rest.n > colon && (rest.p[colon] == '-' || rest.p[colon] == '=');

        if (n > 0 && rest.n == 0 && value)
                (void)buf_append(word, str_of(value));
        else if (defaults && value && value[0])
                (void)buf_append(word, str_of(value));
        else if (defaults)
                add_expanded(check, str_skip(rest, colon + 1), word);
        else
                (void)buf_add_char(word, OWN_UNKNOWN);

        return end;
}

/* "$NAME" or "${NAME...}": its value is appended. Returns how many bytes of the text that is; 1: only a dollar. */
static size_t add_variable(struct own_check *check, struct str text, struct buf *word) {
        struct str rest = str_skip(text, 1);
        size_t n = name_length(rest);

        if (rest.n > 0 && rest.p[0] == '{')
                return 2 + add_braced(check, str_skip(rest, 1), word);
        if (rest.n > 0 && rest.p[0] == '(')
                (void)buf_add_char(word, OWN_UNKNOWN);
        if (n == 0 && !(rest.n > 0 && (rest.p[0] == '@' || rest.p[0] == '*')))
                return 1;

        const char *value = n > 0 ? own_variable(check, str_first(rest, n)) : NULL;
        (void)buf_append(word, str_of(value ? value : OWN_UNKNOWN_TEXT));

        return n > 0 ? 1 + n : 2;
}

/* NAME=VALUE: the text behind the '='. */
static int check_assignment(struct own_check *check, struct str name, struct str text) {
        cleanup(buf_done) struct buf value = BUF(WORD_MAX);
        char quote = '\0';
        size_t n = 0;

        if (name.n == 0 || name_length(name) != name.n)
                return 0;

        for (; n < text.n && (quote || !strchr(" \t\n;&|<>)", text.p[n])); n++) {
                if (quote && text.p[n] == quote)
                        quote = '\0';
                else if (!quote && (text.p[n] == '\'' || text.p[n] == '"'))
                        quote = text.p[n];
        }

        add_expanded(check, str_first(text, n), &value);
        return variable_set(check, name, buf_str(&value));
}

/* `for NAME in ...` and `read NAME ...`: what they get is not known. */
static int check_named(struct own_check *check, struct str word) {
        bool is_name = word.n > 0 && name_length(word) == word.n;

        if (str_is(word, "for") || str_is(word, "read"))
                check->names_variables = true;
        else if (check->names_variables && is_name)
                return variable_set(check, word, STR(OWN_UNKNOWN_TEXT));
        else if (word.n > 0 && word.p[0] != '-')
                check->names_variables = false;

        return 0;
}

/* A word is whole: it is looked at, and once more inside if a shell could cut it further. */
static int end_word(struct own_check *check, struct buf *word, unsigned depth) {
        bool again = false;
        int r = own_check_word(check, buf_str(word));

        if (r == 0)
                r = check_named(check, buf_str(word));

        for (size_t i = 0; i < word->n; i++)
                again = again || is_cut(word->p[i]) || strchr("'\"\\$", word->p[i]);

        if (r == 0 && again && depth < DEPTH_MAX)
                r = check_text(check, buf_str(word), depth + 1);

        buf_clear(word);
        return r;
}

/* Commands in a word, $(...) and `...`: their own words are looked at, and the word goes on with what they print. */
struct inner {
        struct buf before; /* of the word */
        unsigned open;     /* parentheses */
        bool ticks;
};

static int cut_word(struct own_check *check, struct inner *inner, struct str text, size_t at, struct buf *word,
                    unsigned depth) {
        char ch = text.p[at];
        bool was_inside = inner->open > 0 || inner->ticks, ends = false;

        if (ch == '=') {
                int r = check_assignment(check, buf_str(word), str_skip(text, at + 1));
                if (r < 0)
                        return r;
        }

        if (ch == '`')
                inner->ticks = !inner->ticks;
        else if (ch == '(' && (inner->open > 0 || (at > 0 && text.p[at - 1] == '$')))
                inner->open++;
        else if (ch == ')' && inner->open > 0)
                inner->open--;

        bool is_inside = inner->open > 0 || inner->ticks;
        ends = was_inside && !is_inside;
        if (!was_inside && is_inside) {
                buf_clear(&inner->before);
                (void)buf_append(&inner->before, buf_str(word));
        }

        int r = end_word(check, word, depth);
        if (ends) {
                (void)buf_append(word, buf_str(&inner->before));
                (void)buf_add_char(word, OWN_UNKNOWN);
        }

        return r;
}

static int check_text(struct own_check *check, struct str text, unsigned depth) {
        cleanup(buf_done) struct buf word = BUF(WORD_MAX);
        struct inner inner = { .before = BUF(WORD_MAX) };
        char quote = '\0';
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                char ch = text.p[i];
                bool command = ch == '$' && i + 1 < text.n && text.p[i + 1] == '(';
                if (quote && ch == quote) {
                        quote = '\0';
                } else if (!quote && (ch == '\'' || ch == '"')) {
                        quote = ch;
                } else if (quote != '\'' && ch == '\\' && i + 1 < text.n) {
                        (void)buf_add_char(&word, text.p[++i]);
                } else if (quote == '"' && command) {
                        (void)buf_add_char(&word, ch); /* for the look inside */
                } else if (quote != '\'' && ch == '$' && !command) {
                        i += add_variable(check, str_skip(text, i), &word) - 1;
                } else if (!quote && is_cut(ch) && !(ch == '!' && str_ends(buf_str(&word), STR("[")))) {
                        r = cut_word(check, &inner, text, i, &word, depth);
                } else if (!command) {
                        (void)buf_add_char(&word, ch);
                }
        }

        buf_done(&inner.before);
        if (r < 0)
                return r;

        return end_word(check, &word, depth);
}

static int check_written_out(struct own_check *check, struct str text) {
        int r;

        check->goes = false;
        check->names_variables = false;
        check->matches = 0;
        r = check_text(check, text, 0);

        while (check->n_bases > 0)
                free(check->bases[--check->n_bases]);
        while (check->n_set > 0) {
                check->n_set--;
                free(check->set[check->n_set].name);
                free(check->set[check->n_set].value);
        }

        return r;
}

/* The first {A,B} or {1..9} without a brace inside: where it begins, and its length. */
static bool brace_find(struct str text, size_t *ret_at, size_t *ret_n) {
        size_t at = text.n;

        for (size_t i = 0; i < text.n; i++) {
                struct str inside = { 0 };

                if (text.p[i] == '{')
                        at = i > 0 && text.p[i - 1] == '$' ? text.n : i;
                else if (strchr(" \t\n", text.p[i]))
                        at = text.n;
                if (text.p[i] != '}' || at == text.n)
                        continue;

                inside = str_n(text.p + at + 1, i - at - 1);
                if (str_find(inside, ',') >= 0 || memmem(inside.p, inside.n, "..", 2)) {
                        *ret_at = at;
                        *ret_n = i + 1 - at;
                        return true;
                }
                at = text.n;
        }

        return false;
}

static int check_braces(struct own_check *check, struct str text, unsigned *left);

/* The command with `choice` in the place of n bytes. */
static int check_choice(struct own_check *check, struct str text, size_t at, size_t n, struct str choice,
                        unsigned *left) {
        if (*left == 0)
                return err_set(check->err, E2BIG,
                               "%s runs outside the sandbox, and has too many braces to check where its paths lead: "
                               "write them out",
                               check->what);

        cleanup(free_ptr) char *chosen =
            str_format("%.*s%.*s%.*s", (int)at, text.p, STR_FMT(choice), (int)(text.n - at - n), text.p + at + n);
        if (!chosen)
                return own_no_memory(check);

        --*left;
        return check_braces(check, str_of(chosen), left);
}

/* The command with one choice of each group of braces after the other. */
static int check_braces(struct own_check *check, struct str text, unsigned *left) {
        size_t at, n;
        int r = 0;

        if (!brace_find(text, &at, &n))
                return check_written_out(check, text);

        struct str choices = str_n(text.p + at + 1, n - 2);
        if (str_find(choices, ',') < 0)
                return check_choice(check, text, at, n, STR(OWN_UNKNOWN_TEXT), left);

        for (bool more = true; more && r == 0;) {
                ptrdiff_t comma = str_find(choices, ',');
                struct str choice = comma < 0 ? choices : str_first(choices, (size_t)comma);

                r = check_choice(check, text, at, n, choice, left);
                more = comma >= 0;
                choices = str_skip(choices, choice.n + (more ? 1 : 0));
        }

        return r;
}

static int check_command(struct own_check *check, const char *command) {
        if (strlen(command) >= WORD_MAX)
                return err_set(check->err, E2BIG, "%s: its command is too long", check->what);

        unsigned left = BRACES_MAX;
        int r = check_written_out(check, str_of(command));
        if (r < 0)
                return r;

        return check_braces(check, str_of(command), &left);
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
