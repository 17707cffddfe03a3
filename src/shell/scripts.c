/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of sed and awk on a command line. They are not understood, only searched for the few words that start a
 * command or write a file. What is found as a plain string is judged like any command or redirection; the rest is a
 * question for a person. Interpreters are looked at in code.c.
 */
#include "shell/call.h"

static void runs_text(struct judge *j, const struct sh_call *c, struct str text) {
        const struct sh_arg command = judge_arg(j, str_trim(text));
        if (command.text.n)
                judge_program(j, c, &command, 1);
        judge_find(j, FINDING_OPTION_RUNS);
}

static void writes_to_file(struct judge *j, struct str path) {
        judge_output(j, judge_arg(j, str_trim(path)));
}

/* --- sed ---------------------------------------------------------------------------------------------------------- */

struct scan {
        struct str text;
        size_t at;
};

static char now(const struct scan *s) {
        return s->at < s->text.n ? s->text.p[s->at] : '\n';
}

static bool more(const struct scan *s) {
        return s->at < s->text.n;
}

/* Behind the next delimiter that is not escaped. */
static void skip_section(struct scan *s, char delimiter) {
        while (more(s) && now(s) != delimiter)
                s->at += now(s) == '\\' && s->at + 1 < s->text.n ? 2 : 1;
        s->at += more(s);
}

static struct str rest_of_line(struct scan *s) {
        size_t from = s->at;
        while (more(s) && now(s) != '\n')
                s->at++;
        return str_n(s->text.p + from, s->at - from);
}

static void sed_address(struct scan *s) {
        while (more(s)) {
                char ch = now(s);
                if (ch == '/') {
                        s->at++;
                        skip_section(s, '/');
                } else if (ch == '\\' && s->at + 1 < s->text.n) {
                        char delimiter = s->text.p[s->at + 1];
                        s->at += 2;
                        skip_section(s, delimiter);
                } else if (ascii_is_digit(ch) || strchr(" \t\n;{}$,~+!IM0", ch))
                        s->at++;
                else
                        return;
        }
}

static void sed_substitution(struct judge *j, const struct sh_call *c, struct scan *s) {
        char delimiter = now(s);
        s->at++;
        skip_section(s, delimiter);
        size_t from = s->at;
        skip_section(s, delimiter);
        struct str replacement = str_n(s->text.p + from, s->at > from ? s->at - from - 1 : 0);
        for (; more(s) && !strchr(";}\n", now(s)); s->at++) {
                if (now(s) == 'w') {
                        s->at++;
                        writes_to_file(j, rest_of_line(s));
                        return;
                }
                if (now(s) == 'e')
                        runs_text(j, c, replacement);
        }
}

static void sed_script(struct judge *j, const struct sh_call *c, struct str text) {
        struct scan s = { text, 0 };
        while (sed_address(&s), more(&s)) {
                char command = now(&s);
                s.at++;
                if (command == 's')
                        sed_substitution(j, c, &s);
                else if (command == 'y') {
                        char delimiter = now(&s);
                        s.at++;
                        skip_section(&s, delimiter);
                        skip_section(&s, delimiter);
                } else if (command == 'e')
                        runs_text(j, c, rest_of_line(&s));
                else if (command == 'w' || command == 'W')
                        writes_to_file(j, rest_of_line(&s));
                else if (strchr("aicrR#", command))
                        (void)rest_of_line(&s);
                else if (strchr(":btTqQlL", command))
                        while (more(&s) && !strchr(";}\n", now(&s)))
                                s.at++;
        }
}

/* sed -f /dev/stdin */
static void sed_here(struct judge *j, const struct sh_call *c) {
        for (const struct sh_redirect *r = c->redirects; r; r = r->next)
                if (r->kind == SH_HERE_DOCUMENT || r->kind == SH_HERE_STRING)
                        sed_script(j, c, sh_word_to_arg(j, r->target).text);
}

static void sed(struct judge *j, const struct sh_call *c) {
        const struct sh_option expression = { .letters = "e", .words = WORDS("--expression") };
        const struct sh_option file = { .letters = "f", .words = WORDS("--file") };
        struct sh_arg value;
        bool given = false;
        for (size_t i = 1; i < c->n; i++) {
                if (call_option_value(c, i, &expression, &value)) {
                        sed_script(j, c, value.text);
                        given = true;
                } else if (call_option_value(c, i, &file, &value)) {
                        given = true;
                        if (str_is(value.text, "-") || str_is(value.text, "/dev/stdin"))
                                sed_here(j, c);
                }
        }
        const struct sh_arg *script = given ? NULL : call_operand(c, 0);
        if (script)
                sed_script(j, c, script->text);
}

/* --- awk ---------------------------------------------------------------------------------------------------------- */

/* A slash begins a pattern where no value stands before it. */
static bool begins_pattern(char before) {
        return before == '\0' || strchr("({,;!~&|=}\n", before);
}

static struct str string_at(struct scan *s) {
        size_t from = ++s->at;
        skip_section(s, '"');
        return str_n(s->text.p + from, s->at > from ? s->at - from - 1 : 0);
}

static void skip_blanks(struct scan *s) {
        while (more(s) && (now(s) == ' ' || now(s) == '\t'))
                s->at++;
}

/* Behind `system(`, `|` or `>`: a string that is known, or something else. */
static struct str string_behind(struct scan *s, bool *ret_is) {
        skip_blanks(s);
        if (now(s) == '(') {
                s->at++;
                skip_blanks(s);
        }
        *ret_is = more(s) && now(s) == '"';
        return *ret_is ? string_at(s) : STR("");
}

/* "CMD" | getline, print | "CMD", print |& "CMD" */
static void awk_pipe(struct judge *j, const struct sh_call *c, struct scan *s, struct str last) {
        bool known;
        s->at += now(s) == '&';
        skip_blanks(s);
        if (str_starts(str_skip(s->text, s->at), STR("getline"))) {
                runs_text(j, c, last);
                return;
        }
        runs_text(j, c, string_behind(s, &known));
}

static void awk_script(struct judge *j, const struct sh_call *c, struct str text) {
        struct scan s = { text, 0 };
        struct str last = STR("");
        char before = '\0';
        bool known;
        while (more(&s)) {
                char ch = now(&s);
                if (ch == '"') {
                        last = string_at(&s);
                } else if (ch == '#') {
                        (void)rest_of_line(&s);
                } else if (ch == '/' && begins_pattern(before)) {
                        s.at++;
                        skip_section(&s, '/');
                } else if (ch == '|' && s.at + 1 < text.n && text.p[s.at + 1] == '|') {
                        s.at += 2;
                } else if (ch == '|') {
                        s.at++;
                        awk_pipe(j, c, &s, last);
                } else if (ch == '>') {
                        s.at += s.at + 1 < text.n && text.p[s.at + 1] == '>' ? 2 : 1;
                        struct str path = string_behind(&s, &known);
                        if (known)
                                writes_to_file(j, path);
                } else if (str_starts(str_skip(text, s.at), STR("system")) && !ascii_is_alnum(before)) {
                        s.at += 6;
                        skip_blanks(&s);
                        if (now(&s) == '(')
                                runs_text(j, c, string_behind(&s, &known));
                } else {
                        s.at++;
                }
                if (ch != ' ' && ch != '\t')
                        before = ch;
        }
}

static void awk(struct judge *j, const struct sh_call *c) {
        const struct sh_option valued = { .letters = "Fvil", .flags = OPTION_ALONE };
        const struct sh_option source = { .letters = "e", .words = WORDS("--source"), .flags = OPTION_ALONE };
        const struct sh_option file = { .letters = "fE", .words = WORDS("--file"), .flags = OPTION_ALONE };
        struct sh_arg value;
        for (size_t i = 1; i < c->n; i++) {
                if (call_option_value(c, i, &file, &value))
                        return; /* a script in a file */
                if (call_option_value(c, i, &source, &value))
                        awk_script(j, c, value.text);
                else if (call_option_value(c, i, &valued, &value))
                        i += c->p[i].text.n == 2;
                else if (c->p[i].text.n == 0 || c->p[i].text.p[0] != '-') {
                        awk_script(j, c, c->p[i].text);
                        return;
                }
        }
}

void judge_script(struct judge *j, const struct sh_call *c) {
        static const char *const awks[] = { "awk", "gawk", "mawk", "nawk", "original-awk", NULL };
        static const char *const seds[] = { "sed", "gsed", NULL };
        if (c->n < 2 && !c->redirects)
                return;
        if (word_in(c->name, seds))
                sed(j, c);
        else if (word_in(c->name, awks))
                awk(j, c);
        else
                judge_code(j, c);
}
