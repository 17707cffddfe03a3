/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that stand on the command line of another language: sed, awk, and one-liners of interpreters. They are not
 * understood, only searched for the few words that start a command or write a file. What is found as a plain string is
 * judged like any command or redirection; the rest is a question for a person.
 */
#include "shell/call.h"

static void runs_text(struct judge *j, const struct sh_call *c, struct str text) {
        const struct sh_arg command = { .text = str_trim(text), .unknown = str_has_nul(text) };
        if (command.text.n)
                judge_program(j, c, &command, 1);
        judge_find(j, FINDING_OPTION_RUNS);
}

static void writes_to_file(struct judge *j, struct str path) {
        judge_output(j, (struct sh_arg){ .text = str_trim(path), .unknown = str_has_nul(path) });
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

static void sed(struct judge *j, const struct sh_call *c) {
        const struct sh_option expression = { .letters = "e", .words = WORDS("--expression") };
        const struct sh_option file = { .letters = "f", .words = WORDS("--file") };
        struct sh_arg value;
        bool given = false;
        for (size_t i = 1; i < c->n; i++) {
                if (call_option_value(c, i, &expression, &value)) {
                        sed_script(j, c, value.text);
                        given = true;
                } else
                        given = given || call_option_value(c, i, &file, &value);
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

/* --- interpreters ------------------------------------------------------------------------------------------------- */

/* Which option has the code, and what in it starts a program. */
static const struct {
        const char *name; /* a beginning */
        char letters[4];
        const char *const *words;
        const char *const *starts;
} languages[] = {
        { "python", "c", NULL,
          WORDS("os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "subprocess", "pty.spawn", "Popen",
                "system('", "system(\"") },
        { "perl", "eE", NULL,
          WORDS("system(", "system \"", "system '", "exec(", "exec \"", "exec '", "`", "qx", "open3") },
        { "node", "ep", WORDS("--eval", "--print"), WORDS("child_process", "execSync", "spawnSync") },
        { "bun", "e", WORDS("--eval"), WORDS("child_process", "Bun.spawn", "Bun.$") },
        { "ruby", "e", NULL,
          WORDS("system(", "system \"", "system '", "exec(", "exec \"", "exec '", "`", "%x", "popen", "spawn",
                "Open3") },
        { "php", "r", WORDS("--run"), WORDS("system(", "exec(", "passthru(", "popen(", "proc_open(", "`") },
        { "lua", "e", NULL, WORDS("os.execute", "io.popen") },
};

static bool has_any(struct str code, const char *const *words) {
        for (size_t i = 0; i < code.n; i++)
                for (const char *const *p = words; *p; p++)
                        if (code.p[i] == **p && str_starts(str_skip(code, i), str_of(*p)))
                                return true;
        return false;
}

/* The strings in the code that name a file with secrets. */
static bool names_secret(struct str code) {
        for (size_t i = 0; i < code.n; i++) {
                if (code.p[i] != '"' && code.p[i] != '\'')
                        continue;
                ptrdiff_t end = str_find(str_skip(code, i + 1), code.p[i]);
                if (end < 0)
                        return false;
                if (names_credential((struct sh_arg){ .text = str_n(code.p + i + 1, (size_t)end) }))
                        return true;
                i += (size_t)end + 1;
        }
        return false;
}

static void one_liner(struct judge *j, const struct sh_call *c) {
        for (size_t k = 0; k < sizeof languages / sizeof languages[0]; k++) {
                if (!str_starts(c->name, str_of(languages[k].name)))
                        continue;
                const struct sh_option option = { .letters = languages[k].letters, .words = languages[k].words };
                struct sh_arg code;
                for (size_t i = 1; i < c->n && c->p[i].text.n && c->p[i].text.p[0] == '-'; i++)
                        if (call_option_value(c, i, &option, &code)) {
                                if (has_any(code.text, languages[k].starts))
                                        judge_find(j, FINDING_OPTION_RUNS);
                                if (names_secret(code.text))
                                        judge_find(j, FINDING_REDIRECT_CREDENTIAL);
                                i++;
                        }
        }
}

void judge_script(struct judge *j, const struct sh_call *c) {
        static const char *const awks[] = { "awk", "gawk", "mawk", "nawk", "original-awk", NULL };
        static const char *const seds[] = { "sed", "gsed", NULL };
        if (c->n < 2)
                return;
        if (word_in(c->name, seds))
                sed(j, c);
        else if (word_in(c->name, awks))
                awk(j, c);
        else
                one_liner(j, c);
}
