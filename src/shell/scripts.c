/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of sed and awk on a command line. They are not understood, only searched for the few words that start a
 * command or write a file. What is found as a plain string is judged like any command or redirection; the rest is a
 * question for a person. Interpreters are looked at in code.c.
 */
#include "shell/call.h"

static void runs_text(struct judge *judge, const struct sh_call *call, struct str text) {
        const struct sh_arg command = judge_arg(judge, str_trim(text));
        if (command.text.n)
                judge_program(judge, call, &command, 1);
        judge_find(judge, FINDING_OPTION_RUNS);
}

static void writes_to_file(struct judge *judge, struct str path) {
        judge_output(judge, judge_arg(judge, str_trim(path)));
}

/* --- sed ---------------------------------------------------------------------------------------------------------- */

struct scan {
        struct str text;
        size_t at;
};

static char scripts_now(const struct scan *scan) {
        return scan->at < scan->text.n ? scan->text.p[scan->at] : '\n';
}

static bool scripts_more(const struct scan *scan) {
        return scan->at < scan->text.n;
}

/* Behind the next delimiter that is not escaped. */
static void skip_section(struct scan *scan, char delimiter) {
        while (scripts_more(scan) && scripts_now(scan) != delimiter)
                scan->at += scripts_now(scan) == '\\' && scan->at + 1 < scan->text.n ? 2 : 1;
        scan->at += scripts_more(scan);
}

static struct str rest_of_line(struct scan *scan) {
        size_t from = scan->at;
        while (scripts_more(scan) && scripts_now(scan) != '\n')
                scan->at++;
        return str_n(scan->text.p + from, scan->at - from);
}

static void sed_address(struct scan *scan) {
        while (scripts_more(scan)) {
                char ch = scripts_now(scan);
                if (ch == '/') {
                        scan->at++;
                        skip_section(scan, '/');
                } else if (ch == '\\' && scan->at + 1 < scan->text.n) {
                        char delimiter = scan->text.p[scan->at + 1];

                        scan->at += 2;
                        skip_section(scan, delimiter);
                } else if (ascii_is_digit(ch) || strchr(" \t\n;{}$,~+!IM0", ch))
                        scan->at++;
                else
                        return;
        }
}

static void sed_substitution(struct judge *judge, const struct sh_call *call, struct scan *scan) {
        char delimiter = scripts_now(scan);

        scan->at++;
        skip_section(scan, delimiter);
        size_t from = scan->at;
        skip_section(scan, delimiter);

        struct str replacement = str_n(scan->text.p + from, scan->at > from ? scan->at - from - 1 : 0);

        for (; scripts_more(scan) && !strchr(";}\n", scripts_now(scan)); scan->at++) {
                if (scripts_now(scan) == 'w') {
                        scan->at++;
                        writes_to_file(judge, rest_of_line(scan));
                        return;
                }

                if (scripts_now(scan) == 'e')
                        runs_text(judge, call, replacement);
        }
}

static void sed_script(struct judge *judge, const struct sh_call *call, struct str text) {
        struct scan scan = { text, 0 };
        while (sed_address(&scan), scripts_more(&scan)) {
                char command = scripts_now(&scan);

                scan.at++;

                if (command == 's')
                        sed_substitution(judge, call, &scan);
                else if (command == 'y') {
                        char delimiter = scripts_now(&scan);

                        scan.at++;
                        skip_section(&scan, delimiter);
                        skip_section(&scan, delimiter);
                } else if (command == 'e')
                        runs_text(judge, call, rest_of_line(&scan));
                else if (command == 'w' || command == 'W')
                        writes_to_file(judge, rest_of_line(&scan));
                else if (strchr("aicrR#", command))
                        (void)rest_of_line(&scan);
                else if (strchr(":btTqQlL", command))
                        while (scripts_more(&scan) && !strchr(";}\n", scripts_now(&scan)))
                                scan.at++;
        }
}

/* sed -f /dev/stdin */
static void sed_here(struct judge *judge, const struct sh_call *call) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING)
                        sed_script(judge, call, sh_word_to_arg(judge, redirect->target).text);
}

static void scripts_sed(struct judge *judge, const struct sh_call *call) {
        const struct sh_option expression = { .letters = "e", .words = WORDS("--expression") };
        const struct sh_option file = { .letters = "f", .words = WORDS("--file") };
        struct sh_arg value;
        bool given = false;

        for (size_t i = 1; i < call->n; i++) {
                if (call_option_value(call, i, &expression, &value)) {
                        sed_script(judge, call, value.text);
                        given = true;
                } else if (call_option_value(call, i, &file, &value)) {
                        given = true;
                        if (str_is(value.text, "-") || str_is(value.text, "/dev/stdin"))
                                sed_here(judge, call);
                }
        }

        const struct sh_arg *script = given ? NULL : call_operand(call, 0);
        if (script)
                sed_script(judge, call, script->text);
}

/* --- awk ---------------------------------------------------------------------------------------------------------- */

/* A slash begins a pattern where no value stands before it. */
static bool begins_pattern(char before) {
        return before == '\0' || strchr("({,;!~&|=}\n", before);
}

static struct str string_at(struct scan *scan) {
        size_t from = ++scan->at;
        skip_section(scan, '"');
        return str_n(scan->text.p + from, scan->at > from ? scan->at - from - 1 : 0);
}

static void skip_blanks(struct scan *scan) {
        while (scripts_more(scan) && (scripts_now(scan) == ' ' || scripts_now(scan) == '\t'))
                scan->at++;
}

/* Behind `system(`, `|` or `>`: a string that is known, or something else. */
static struct str string_behind(struct scan *scan, bool *ret_is) {
        skip_blanks(scan);
        if (scripts_now(scan) == '(') {
                scan->at++;
                skip_blanks(scan);
        }
        *ret_is = scripts_more(scan) && scripts_now(scan) == '"';
        if (*ret_is)
                return string_at(scan);

        return STR("");
}

/* "CMD" | getline, print | "CMD", print |& "CMD" */
static void awk_pipe(struct judge *judge, const struct sh_call *call, struct scan *scan, struct str last) {
        bool known;

        scan->at += scripts_now(scan) == '&';
        skip_blanks(scan);

        if (str_starts(str_skip(scan->text, scan->at), STR("getline"))) {
                runs_text(judge, call, last);
                return;
        }

        runs_text(judge, call, string_behind(scan, &known));
}

static void awk_script(struct judge *judge, const struct sh_call *call, struct str text) {
        struct scan scan = { text, 0 };
        struct str last = STR("");
        char before = '\0';
        bool known;

        while (scripts_more(&scan)) {
                char ch = scripts_now(&scan);
                if (ch == '"') {
                        last = string_at(&scan);
                } else if (ch == '#') {
                        (void)rest_of_line(&scan);
                } else if (ch == '/' && begins_pattern(before)) {
                        scan.at++;
                        skip_section(&scan, '/');
                } else if (ch == '|' && scan.at + 1 < text.n && text.p[scan.at + 1] == '|') {
                        scan.at += 2;
                } else if (ch == '|') {
                        scan.at++;
                        awk_pipe(judge, call, &scan, last);
                } else if (ch == '>') {
                        scan.at += scan.at + 1 < text.n && text.p[scan.at + 1] == '>' ? 2 : 1;
                        struct str path = string_behind(&scan, &known);
                        if (known)
                                writes_to_file(judge, path);
                } else if (str_starts(str_skip(text, scan.at), STR("system")) && !ascii_is_alnum(before)) {
                        scan.at += 6;
                        skip_blanks(&scan);
                        if (scripts_now(&scan) == '(')
                                runs_text(judge, call, string_behind(&scan, &known));
                } else {
                        scan.at++;
                }

                if (ch != ' ' && ch != '\t')
                        before = ch;
        }
}

/* awk -f /dev/stdin */
static void awk_here(struct judge *judge, const struct sh_call *call) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING)
                        awk_script(judge, call, sh_word_to_arg(judge, redirect->target).text);
}

static void scripts_awk(struct judge *judge, const struct sh_call *call) {
        const struct sh_option valued = { .letters = "Fvil", .flags = OPTION_ALONE };
        const struct sh_option source = { .letters = "e", .words = WORDS("--source"), .flags = OPTION_ALONE };
        const struct sh_option file = { .letters = "fE", .words = WORDS("--file"), .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                if (call_option_value(call, i, &file, &value)) {
                        if (str_is(value.text, "-") || str_is(value.text, "/dev/stdin"))
                                awk_here(judge, call);
                        return; /* a script in a file */
                }
                if (call_option_value(call, i, &source, &value))
                        awk_script(judge, call, value.text);
                else if (call_option_value(call, i, &valued, &value))
                        i += call->p[i].text.n == 2;
                else if (call->p[i].text.n == 0 || call->p[i].text.p[0] != '-') {
                        awk_script(judge, call, call->p[i].text);
                        return;
                }
        }
}

void judge_script(struct judge *judge, const struct sh_call *call) {
        static const char *const awks[] = { "awk", "gawk", "mawk", "nawk", "original-awk", NULL };
        static const char *const seds[] = { "sed", "gsed", NULL };

        if (call->n < 2 && !call->redirects)
                return;

        if (word_in(call->name, seds))
                scripts_sed(judge, call);
        else if (word_in(call->name, awks))
                scripts_awk(judge, call);
        else
                judge_code(judge, call);
}
