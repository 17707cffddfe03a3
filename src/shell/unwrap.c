/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that start other programs: looked through, so that what they start is judged as if it stood there alone.
 * Most are rows of a table (which options take a value, how many operands come before the command). Shells, find,
 * xargs, git and the builtins that take text have a function each.
 */
#include "shell/question.h"
#include "shell/variables.h"
#include "shell/wrappers.h"

#include <stdlib.h>

bool is_shell(struct str name) {
        static const char *const shells[] = { "sh",   "bash", "dash", "zsh",  "ksh", "ash",    "mksh",  "rbash", "yash",
                                              "posh", "fish", "csh",  "tcsh", "nu",  "elvish", "xonsh", "pwsh",  NULL };
        return word_in(name, shells);
}

static bool is_interpreter(struct str name) {
        static const char *const interpreters[] = { "perl", "node", "nodejs",  "ruby",  "php", "lua",
                                                    "deno", "bun",  "Rscript", "tclsh", NULL };
        return str_starts(name, STR("python")) || str_starts(name, STR("pypy")) || word_in(name, interpreters);
}

/* The same in this shell itself: what the text sets stays set. */
static void judge_program_here(struct judge *j, const struct sh_call *c, const struct sh_arg *args, size_t n) {
        bool unknown;
        struct str text = sh_args_join(j, args, n, &unknown);
        if (unknown)
                judge_not_understood(j, "a part of the program text is known only when it runs");
        bool fed = n > 0 && args[n - 1].fed && (c->pipe_facts & FACT_DOWNLOADS);
        if (unknown && (fed || (c->inner_facts & FACT_DOWNLOADS)))
                judge_find(j, FINDING_PIPE_DOWNLOAD);
        judge_text(j, text);
}

/* A shell that is started for it sees what was exported, and takes what it sets with it. */
void judge_program(struct judge *j, const struct sh_call *c, const struct sh_arg *args, size_t n) {
        const struct sh_variable *before = j->where.variables;

        variables_enter_program(j);
        judge_program_here(j, c, args, n);
        j->where.variables = j->failed.variables = before;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

struct scan { /* where the command of a wrapper begins */
        size_t at;
        bool text_done;      /* an option had the command as text */
        struct sh_arg split; /* env -S: the beginning of the command as text */
};

static bool is_assignment(struct str s, struct str *ret_name, struct str *ret_value) {
        ptrdiff_t equals = str_find(s, '=');
        if (equals <= 0)
                return false;
        for (ptrdiff_t i = 0; i < equals; i++)
                if (s.p[i] != '_' && !ascii_is_alnum(s.p[i]))
                        return false;
        *ret_name = str_first(s, (size_t)equals);
        *ret_value = str_skip(s, (size_t)equals + 1);
        return true;
}

/* The value of an option: the rest of its word, or the next one. */
static struct sh_arg text_behind(const struct sh_call *c, size_t i, struct str rest, bool inside) {
        struct sh_arg value = inside ? c->p[i] : i + 1 < c->n ? c->p[i + 1] : (struct sh_arg){ .text = STR("") };
        if (inside)
                value.text = rest;
        return value;
}

static void found_text(struct judge *j, const struct sh_call *c, const struct wrapper *w, struct sh_arg text,
                       struct scan *scan) {
        scan->text_done = true;
        if (w->text_letter == 'S')
                scan->split = text; /* the words behind belong to it */
        else
                judge_program(j, c, &text, 1);
}

/* -abcVALUE or -abc VALUE; returns how many words were taken. */
static size_t short_options(struct judge *j, const struct sh_call *c, const struct wrapper *w, size_t i,
                            struct scan *scan) {
        struct str arg = c->p[i].text;
        for (size_t k = 1; k < arg.n; k++) {
                bool text = w->text_letter && arg.p[k] == w->text_letter;
                if (!text && !(arg.p[k] && strchr(w->valued, arg.p[k])))
                        continue;
                bool inside = k + 1 < arg.n;
                if (text)
                        found_text(j, c, w, text_behind(c, i, str_skip(arg, k + 1), inside), scan);
                return inside ? 1 : 2;
        }
        return 1;
}

static size_t long_option(struct judge *j, const struct sh_call *c, const struct wrapper *w, size_t i,
                          struct scan *scan) {
        struct str arg = c->p[i].text;
        ptrdiff_t equals = str_find(arg, '=');
        struct str name = equals >= 0 ? str_first(arg, (size_t)equals) : arg;
        if (w->text_long && name.n >= 4 && str_starts(str_of(w->text_long), name)) {
                found_text(j, c, w, text_behind(c, i, str_skip(arg, (size_t)equals + 1), equals >= 0), scan);
                return equals >= 0 ? 1 : 2;
        }
        return equals < 0 && w->valued_long && word_in(name, w->valued_long) ? 2 : 1;
}

static struct scan find_command(struct judge *j, const struct sh_call *c, const struct wrapper *w) {
        struct scan scan = { .at = 1 };
        unsigned operands = w->operands;
        bool options = true;
        while (scan.at < c->n) {
                struct str arg = c->p[scan.at].text, name, value;
                if (options && str_is(arg, "--")) {
                        options = false;
                        scan.at++;
                } else if (options && arg.n > 1 && arg.p[0] == '-')
                        scan.at += arg.p[1] == '-' ? long_option(j, c, w, scan.at, &scan)
                                                   : short_options(j, c, w, scan.at, &scan);
                else if (str_is(arg, "-") && options)
                        scan.at++;
                else if ((w->flags & ASSIGNS) && is_assignment(arg, &name, &value)) {
                        struct sh_arg given = c->p[scan.at];
                        given.text = value;
                        judge_environment(j, name, value);
                        variables_set(j, name, given);
                        variables_export(j, name);
                        scan.at++;
                } else if (operands > 0) {
                        operands--;
                        scan.at++;
                } else
                        break;
        }
        scan.at = scan.at < c->n ? scan.at : c->n;
        return scan;
}

static bool contains(struct str text, struct str token) {
        for (size_t i = 0; token.n && i + token.n <= text.n; i++)
                if (memcmp(text.p + i, token.p, token.n) == 0)
                        return true;
        return false;
}

/* The words, and one more that stands for what is fed in; so does every word with the token in it. */
static void judge_fed(struct judge *j, const struct sh_arg *args, size_t n, struct str token) {
        struct sh_args more = { 0 };
        for (size_t i = 0; i < n; i++) {
                struct sh_arg arg = args[i];
                if (i > 0 && contains(arg.text, token))
                        arg.unknown = arg.fed = true;
                if (sh_args_add(j, &more, arg) < 0)
                        return;
        }
        if (sh_args_add(j, &more, (struct sh_arg){ .text = str_n("", 1), .unknown = true, .fed = true }) == 0)
                judge_call(j, more.p, more.n);
}

/* xargs -I % and -I%: what is replaced; {} otherwise. */
static struct str feed_token(const struct sh_call *c) {
        for (size_t i = 1; i < c->n; i++) {
                struct str arg = c->p[i].text;
                if (str_is(arg, "-I") && i + 1 < c->n)
                        return c->p[i + 1].text;
                if (arg.n > 2 && str_starts(arg, STR("-I")))
                        return str_skip(arg, 2);
        }
        return STR("{}");
}

/* parallel CMD ::: WORDS: where the words begin; n when there are none. */
static size_t find_sources(const struct sh_arg *args, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_starts(args[i].text, STR(":::")))
                        return i;
        return n;
}

/* parallel 'rm -r {}' ::: a b: the text with each word in its place. */
static void judge_sources(struct judge *j, const struct sh_call *c, const struct sh_arg *args, size_t n, size_t all) {
        bool unknown;
        struct str text = sh_args_join(j, args, n, &unknown);
        for (size_t i = n + 1; i < all; i++)
                for (size_t k = 0; k + 2 <= text.n; k++) {
                        if (memcmp(text.p + k, "{}", 2) != 0)
                                continue;
                        struct str word = args[i].text;
                        char *filled = arena_get(&j->arena, text.n + word.n + 1);
                        if (!filled)
                                return;
                        memcpy(filled, text.p, k);
                        memcpy(filled + k, word.p, word.n);
                        memcpy(filled + k + word.n, text.p + k + 2, text.n - k - 2);
                        const struct sh_arg one = { .text = str_n(filled, text.n + word.n - 2), .unknown = unknown };
                        judge_program(j, c, &one, 1);
                        break;
                }
}

/* env -S TEXT WORDS: one command. */
static void judge_split(struct judge *j, const struct sh_call *c, const struct scan *scan) {
        struct sh_args words = { 0 };
        int r = sh_args_add(j, &words, scan->split);
        for (size_t i = scan->at; r == 0 && i < c->n; i++)
                r = sh_args_add(j, &words, c->p[i]);
        if (r == 0)
                judge_program(j, c, words.p, words.n);
}

/* xargs rm -r <<< /: what is fed in stands there. */
static unsigned facts_of_input(struct judge *j, const struct sh_call *c) {
        unsigned facts = 0;
        for (const struct sh_redirect *r = c->redirects; r; r = r->next) {
                if (r->kind != SH_HERE_DOCUMENT && r->kind != SH_HERE_STRING)
                        continue;
                struct sh_arg word = sh_word_to_arg(j, r->target);
                struct str lines = word.text, line;
                facts |= word.unknown ? 0 : FACT_LISTS; /* they are all here to be seen */
                while (str_split(&lines, '\n', &line))
                        while (str_split(&line, ' ', &word.text)) {
                                if (word.text.n && place_of(word) == PLACE_ROOT)
                                        facts |= FACT_NAMES_ROOT;
                                if (word.text.n && names_credential(word))
                                        facts |= FACT_NAMES_SECRET;
                        }
        }
        return facts;
}

static const struct sh_option moves[] = {
        { WORDS("env"), "C", WORDS("--chdir"), 0 },
        { WORDS("sudo", "run0"), "D", WORDS("--chdir"), OPTION_ALONE },
        { WORDS("unshare"), "w", WORDS("--wd"), OPTION_ALONE },
        { WORDS("nsenter"), "W", WORDS("--wdns"), OPTION_ALONE },
        { WORDS("systemd-run"), NULL, WORDS("--working-directory"), 0 },
};

/* env -C DIR, sudo -D DIR: where the command begins; its words are seen from there. */
static struct sh_args moved_args(struct judge *j, const struct sh_call *c, size_t at) {
        struct sh_args args = { 0 };
        struct sh_arg to;

        for (size_t k = 0; k < sizeof moves / sizeof moves[0]; k++)
                for (size_t i = 1; word_in(c->name, moves[k].programs) && i < at; i++)
                        if (call_option_value(c, i, &moves[k], &to))
                                j->directory = place_behind(&j->arena, j->directory, to);
        where_set(&j->where, j->directory);
        for (size_t i = at; i < c->n; i++) {
                struct sh_arg arg = c->p[i];
                arg.under = j->directory;
                if (sh_args_add(j, &args, arg) < 0)
                        break;
        }
        return args;
}

/* xargs and parallel: a file that has the words. */
static void judge_arg_file(struct judge *j, const struct sh_call *c, size_t at) {
        const struct sh_option file = { .letters = "a", .words = WORDS("--arg-file"), .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < at; i++)
                if (call_option_value(c, i, &file, &value)) {
                        j->pipe_facts &= ~(unsigned)FACT_LISTS;
                        if (names_credential(value))
                                judge_find(j, FINDING_REDIRECT_CREDENTIAL);
                }
}

/* parallel without a command: each line is one. */
static void reads_commands(struct judge *j, const struct sh_call *c) {
        bool file = call_has_any(c, WORDS("-a", "--arg-file"));

        for (const struct sh_redirect *r = c->redirects; r; r = r->next)
                file = file || r->kind == SH_READ;
        if (file)
                judge_not_understood(j, "which commands run stands in a file");
        j->facts |= FACT_READS_PROGRAM;
}

static bool through_table(struct judge *j, const struct sh_call *c, const struct wrapper *w) {
        if (w->finding >= 0)
                judge_find(j, (enum sh_finding)w->finding);
        struct scan scan = find_command(j, c, w);
        struct sh_args moved = moved_args(j, c, scan.at);
        if (scan.split.text.n) {
                judge_split(j, c, &scan);
                return true;
        }
        if (scan.at >= c->n) {
                if (str_is(c->name, "parallel") && !scan.text_done)
                        reads_commands(j, c);
                if (w->finding < 0 && !scan.text_done)
                        return false; /* no command: an ordinary program */
                return true;
        }
        if (scan.text_done)
                return true;
        const struct sh_arg *rest = moved.p;
        size_t n = moved.n;
        for (size_t i = 1; w->finding == FINDING_ELEVATE && w->text_letter && i + 1 < n; i++)
                if (str_is(rest[i].text, "-c") || str_is(rest[i].text, "--command"))
                        judge_program(j, c, &rest[i + 1], 1); /* runuser USER -c TEXT */
        unsigned pipe_before = j->pipe_facts;
        size_t sources = w->flags & JOINS ? find_sources(rest, n) : n, all = n;
        if (sources < n && (j->facts & FACT_NAMES_ROOT))
                j->pipe_facts |= FACT_NAMES_ROOT; /* they are what is fed in */
        if ((w->flags & FEEDS) && (w->flags & JOINS))
                judge_sources(j, c, rest, sources, n);
        n = sources;
        if (sources < all)
                j->pipe_facts |= FACT_LISTS;
        if (w->flags & FEEDS) {
                j->pipe_facts |= facts_of_input(j, c);
                judge_arg_file(j, c, scan.at);
        }
        if (w->flags & FEEDS)
                judge_fed(j, rest, n, feed_token(c));
        else if (!(w->flags & JOINS))
                judge_call(j, rest, n);
        if (w->flags & JOINS)
                judge_program(j, c, rest, n);
        j->pipe_facts = pipe_before;
        return !(w->flags & ITSELF);
}

/* --- shells and interpreters -------------------------------------------------------------------------------------- */

/* A here-document or here-string is the program when nothing else is. */
static bool program_from_here(struct judge *j, const struct sh_call *c) {
        for (const struct sh_redirect *r = c->redirects; r; r = r->next)
                if (r->kind == SH_HERE_DOCUMENT || r->kind == SH_HERE_STRING) {
                        struct sh_arg text = sh_word_to_arg(j, r->target);
                        judge_program(j, c, &text, 1);
                        return true;
                }
        return false;
}

static void reads_program(struct judge *j, const struct sh_call *c) {
        if (program_from_here(j, c))
                return;
        if (c->inner_facts & FACT_DOWNLOADS)
                judge_find(j, FINDING_PIPE_DOWNLOAD);
        j->facts |= FACT_READS_PROGRAM;
        judge_decide(j, SH_SANDBOXED, NULL);
}

static bool is_standard_input(struct str operand) {
        return str_is(operand, "-") || str_is(operand, "/dev/stdin") || str_is(operand, "/dev/fd/0") ||
               str_is(operand, "/proc/self/fd/0");
}

static void script_file(struct judge *j, const struct sh_call *c, const struct sh_arg *script) {
        if (is_standard_input(script->text))
                reads_program(j, c);
        else if (script->unknown && (c->inner_facts & FACT_DOWNLOADS))
                judge_find(j, FINDING_PIPE_DOWNLOAD);
        else if (script->process)
                judge_find(j, FINDING_PIPE_PROGRAM);
        else if (script->fed && !(c->pipe_facts & FACT_LISTS))
                judge_not_understood(j, "which scripts run is known only when it runs");
        else
                judge_decide(j, SH_SANDBOXED, NULL);
}

/* -c TEXT, and behind it what the text knows as $0, $1 and so on. */
static void shell_text(struct judge *j, const struct sh_call *c, size_t at) {
        variables_enter_program(j);
        if (at + 1 < c->n) {
                variables_set(j, STR("0"), c->p[at + 1]);
                variables_set_array(j, STR("@"), c->p + at + 2, c->n - at - 2);
        }
        judge_program_here(j, c, &c->p[at], 1);
}

void unwrap_shell(struct judge *j, const struct sh_call *c) {
        const struct sh_where where = j->where; /* its own cd ends with it */
        struct str directory = j->directory;
        bool text = false, input = false;
        size_t i = 1;
        for (; i < c->n; i++) {
                struct str arg = c->p[i].text;
                if (str_is(arg, "--") || str_is(arg, "-")) {
                        i++;
                        break;
                }
                if (arg.n < 2 || (arg.p[0] != '-' && arg.p[0] != '+'))
                        break;
                if (arg.p[1] == '-') {
                        i += str_is(arg, "--rcfile") || str_is(arg, "--init-file");
                        text = text || str_is(arg, "--command");
                        continue;
                }
                text = text || (arg.p[0] == '-' && memchr(arg.p, 'c', arg.n));
                input = input || memchr(arg.p, 's', arg.n);
                i += (arg.p[arg.n - 1] == 'o' || arg.p[arg.n - 1] == 'O');
        }
        if (text && i < c->n)
                shell_text(j, c, i);
        else if (text)
                judge_not_understood(j, "a shell without its program");
        else if (i < c->n && !input)
                script_file(j, c, &c->p[i]);
        else
                reads_program(j, c);
        j->where = j->failed = where;
        j->directory = directory;
}

/* Text in which each of the words of one group occurs: a connection whose ends become a shell's. */
static bool looks_like_reverse_shell(struct str code) {
        static const char *const sockets[] = { "socket", "TCPSocket", "fsockopen", "net.connect", "Socket", NULL };
        static const char *const shells[] = { "dup2",    "/bin/sh",   "/bin/bash", "pty.spawn",
                                              "cmd.exe", "exec(\"sh", "sh -i",     NULL };
        bool socket = false, shell = false;
        for (size_t i = 0; i < code.n; i++) {
                for (const char *const *p = sockets; *p && !socket; p++)
                        socket = code.p[i] == **p && str_starts(str_skip(code, i), str_of(*p));
                for (const char *const *p = shells; *p && !shell; p++)
                        shell = code.p[i] == **p && str_starts(str_skip(code, i), str_of(*p));
        }
        return socket && shell;
}

static bool interpreter_call(struct judge *j, const struct sh_call *c) {
        bool code = false;
        for (size_t i = 1; i < c->n; i++) {
                struct str arg = c->p[i].text;
                code = code || (arg.n > 1 && arg.p[0] == '-');
                if (looks_like_reverse_shell(arg))
                        judge_find(j, FINDING_REVERSE_SHELL);
        }
        for (const struct sh_redirect *r = c->redirects; r; r = r->next)
                if ((r->kind == SH_HERE_DOCUMENT || r->kind == SH_HERE_STRING) &&
                    looks_like_reverse_shell(sh_word_to_arg(j, r->target).text))
                        judge_find(j, FINDING_REVERSE_SHELL);
        const struct sh_arg *script = call_operand(c, 0);
        bool here = c->redirects && (c->redirects->kind == SH_HERE_DOCUMENT || c->redirects->kind == SH_HERE_STRING);
        if (((!script && !code) || (script && is_standard_input(script->text))) && !here) {
                if (c->inner_facts & FACT_DOWNLOADS)
                        judge_find(j, FINDING_PIPE_DOWNLOAD);
                j->facts |= FACT_READS_PROGRAM;
        } else if ((c->inner_facts & FACT_DOWNLOADS) && (code || (script && script->unknown)))
                judge_find(j, FINDING_PIPE_DOWNLOAD);
        else if (script && script->process)
                judge_find(j, FINDING_PIPE_PROGRAM);
        return false; /* the rules apply as well: python -m pip, perl -i */
}

/* --- find, fd, git, builtins -------------------------------------------------------------------------------------- */

static bool find_call(struct judge *j, const struct sh_call *c) {
        static const char *const runs[] = { "-exec", "-execdir", "-ok", "-okdir", NULL };
        unsigned before = j->pipe_facts;
        j->pipe_facts |= j->facts & (FACT_NAMES_ROOT | FACT_NAMES_SECRET); /* {} stands for what is below */
        j->pipe_facts |= FACT_LISTS;
        for (size_t i = 1; i < c->n; i++) {
                if (!word_in(c->p[i].text, runs))
                        continue;
                size_t end = i + 1;
                while (end < c->n && !str_is(c->p[end].text, ";") && !str_is(c->p[end].text, "+"))
                        end++;
                judge_fed(j, c->p + i + 1, end - i - 1, STR("{}"));
                i = end;
        }
        j->pipe_facts = before;
        return false;
}

/* fd -x CMD, -xCMD, --exec CMD, --exec=CMD: the rest of the line, with what was found behind it. */
static bool fd_call(struct judge *j, const struct sh_call *c) {
        const struct sh_option runs = { .letters = "xX",
                                        .words = WORDS("--exec", "--exec-batch"),
                                        .flags = OPTION_ALONE };
        unsigned before = j->pipe_facts;
        struct sh_arg value;

        j->pipe_facts |= (j->facts & (FACT_NAMES_ROOT | FACT_NAMES_SECRET)) | FACT_LISTS;
        for (size_t i = 1; i < c->n; i++) {
                if (!call_option_value(c, i, &runs, &value) || value.text.n == 0)
                        continue;
                bool inside = i + 1 >= c->n || value.text.p != c->p[i + 1].text.p;
                struct sh_args words = { 0 };
                int r = sh_args_add(j, &words, value);
                for (size_t k = i + (inside ? 1 : 2); r == 0 && k < c->n && !str_is(c->p[k].text, ";"); k++)
                        r = sh_args_add(j, &words, c->p[k]);
                judge_fed(j, words.p, words.n, STR("{}"));
                break;
        }
        j->pipe_facts = before;
        return false;
}

static bool eval_call(struct judge *j, const struct sh_call *c) {
        judge_find(j, FINDING_EVAL);
        if (c->n > 1)
                judge_program_here(j, c, c->p + 1, c->n - 1);
        return true;
}

static bool trap_call(struct judge *j, const struct sh_call *c) {
        const struct sh_arg *action = call_operand(c, 0);
        if (action && !str_is(action->text, "-") && call_operand(c, 1))
                judge_program_here(j, c, action, 1);
        judge_decide(j, SH_SANDBOXED, NULL);
        return true;
}

static bool alias_call(struct judge *j, const struct sh_call *c) {
        for (size_t i = 1; i < c->n; i++) {
                ptrdiff_t equals = str_find(c->p[i].text, '=');
                if (equals <= 0)
                        continue;
                struct sh_arg value = c->p[i];
                value.text = str_skip(value.text, (size_t)equals + 1);
                judge_program(j, c, &value, 1);
        }
        judge_decide(j, SH_SANDBOXED, NULL);
        return true;
}

/* export x=1, local x: what is bound, and how. */
static void declare_name(struct judge *j, const struct sh_call *c, struct str name, const struct sh_arg *value) {
        static const char *const local[] = { "local", "declare", "typeset", NULL };
        bool reference = call_has_option(c, "-n") && !str_is(c->name, "export");
        bool global = call_has_option(c, "-g") && !str_is(c->name, "local");

        if (reference)
                variables_forget(j, name);
        else if (value)
                variables_set(j, name, *value);
        if (str_is(c->name, "export") || call_has_option(c, "-x"))
                variables_export(j, name);
        if (j->function.n && word_in(c->name, local) && !global)
                variables_make_local(j, name);
}

/* export, declare and their kin, and what writes into variables: read, unset, mapfile. */
static bool variable_call(struct judge *j, const struct sh_call *c) {
        static const char *const reading[] = { "read", "unset", "mapfile", "readarray", "getopts", NULL };
        bool plain_before = j->plain_off, reads = word_in(c->name, reading);

        if (str_is(c->name, "mapfile") && call_has_option(c, "-C"))
                judge_not_understood(j, "a command for each line");
        for (size_t i = 1; i < c->n; i++) {
                struct str name, value;
                if (c->p[i].text.n && c->p[i].text.p[0] == '-')
                        continue;
                if (!reads && is_assignment(c->p[i].text, &name, &value)) {
                        struct sh_arg given = c->p[i];
                        given.text = value;
                        judge_environment(j, name, value);
                        declare_name(j, c, name, &given);
                        continue;
                }
                if (reads || c->p[i].unknown)
                        judge_environment(j, c->p[i].text, STR("x"));
                if (reads)
                        variables_forget(j, c->p[i].text);
                else if (c->p[i].unknown)
                        variables_forget_all(j);
                else
                        declare_name(j, c, c->p[i].text, NULL);
        }
        if (str_is(c->name, "read") || str_is(c->name, "mapfile") || str_is(c->name, "readarray")) {
                variables_forget(j, STR("REPLY"));
                variables_forget(j, STR("MAPFILE"));
        }
        j->plain_off = plain_before;
        judge_decide(j, SH_SANDBOXED, NULL);
        return true;
}

/* set -- WORDS: the parameters of this shell. */
static bool set_call(struct judge *j, const struct sh_call *c) {
        size_t i = 1;

        while (i < c->n && c->p[i].text.n > 1 && (c->p[i].text.p[0] == '-' || c->p[i].text.p[0] == '+')) {
                bool last = str_is(c->p[i].text, "--");
                i += c->p[i].text.p[c->p[i].text.n - 1] == 'o' ? 2 : 1;
                if (last)
                        break;
        }
        if (i < c->n || (i > 1 && str_is(c->p[i - 1].text, "--")))
                variables_set_array(j, STR("@"), c->p + i, i < c->n ? c->n - i : 0);
        return false;
}

static bool shift_call(struct judge *j, const struct sh_call *c) {
        const struct sh_value *all = variables_pick(j, STR("@"));
        uint64_t by = 1;
        bool known = c->n < 2 || str_to_u64(c->p[1].text, 1000, &by);

        if (all && all->array && known && by <= all->n)
                variables_set_array(j, STR("@"), all->items + by, all->n - (size_t)by);
        else
                variables_forget(j, STR("@"));
        return false;
}

/* printf -v NAME and let: whatever they put there. */
static bool numbers_call(struct judge *j, const struct sh_call *c) {
        const struct sh_option name = { .letters = "v", .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < c->n; i++)
                if (str_is(c->name, "let"))
                        variables_forget_named(j, c->p[i].text);
                else if (call_option_value(c, i, &name, &value))
                        variables_forget(j, value.text);
        return false;
}

/* A script in a file may set any variable. One that a command prints is as much as a pipe into a shell. */
static bool source_call(struct judge *j, const struct sh_call *c) {
        if (c->n > 1 && (c->inner_facts & FACT_DOWNLOADS) && c->p[1].unknown)
                judge_find(j, FINDING_PIPE_DOWNLOAD);
        else if (c->n > 1 && c->p[1].process)
                judge_find(j, FINDING_PIPE_PROGRAM);
        variables_forget_all(j);
        if (c->n > 1 && is_standard_input(c->p[1].text))
                reads_program(j, c);
        return false;
}

/* "command -v x" only asks where it is. */
static bool command_call(struct judge *j, const struct sh_call *c) {
        if (c->n > 1 && (str_is(c->p[1].text, "-v") || str_is(c->p[1].text, "-V")))
                return false;
        size_t i = 1;
        while (i < c->n && (str_is(c->p[i].text, "-p") || str_is(c->p[i].text, "--")))
                i++;
        if (i < c->n)
                judge_call(j, c->p + i, c->n - i);
        return i < c->n;
}

/* git submodule foreach [--recursive] TEXT */
static void foreach_module(struct judge *j, const struct sh_call *c, size_t at) {
        while (at < c->n && str_starts(c->p[at].text, STR("-")))
                at++;
        if (at < c->n)
                judge_program(j, c, c->p + at, c->n - at);
}

/* What git runs by itself: aliases given on the spot, bisect run, submodule foreach, rebase --exec. */
static bool git_call(struct judge *j, const struct sh_call *c) {
        for (size_t i = 1; i + 1 < c->n; i++) {
                struct sh_arg next = c->p[i + 1];
                if (str_is(c->p[i].text, "-c")) {
                        ptrdiff_t equals = str_find(next.text, '=');
                        next.text = equals >= 0 ? str_skip(next.text, (size_t)equals + 1) : STR("");
                        next.text = str_skip(next.text, next.text.n && next.text.p[0] == '!');
                        if (next.text.n && git_runs_setting(c)) /* some setting here names a program */
                                judge_program(j, c, &next, 1);
                } else if (str_is(c->p[i].text, "-x") && (call_has_word(c, "rebase") || call_has_word(c, "difftool")))
                        judge_program(j, c, &next, 1);
                else if (str_is(c->p[i].text, "run") && call_has_word(c, "bisect"))
                        judge_call(j, c->p + i + 1, c->n - i - 1);
                else if (str_is(c->p[i].text, "foreach") && call_has_word(c, "submodule"))
                        foreach_module(j, c, i + 1);
        }
        const struct sh_option pager = { .letters = "O", .flags = OPTION_ALONE };
        struct sh_arg value;
        for (size_t i = 1; call_has_word(c, "grep") && i < c->n; i++)
                if (c->p[i].text.n > 2 && call_option_value(c, i, &pager, &value))
                        judge_program(j, c, &value, 1);
        return false;
}

static const struct {
        const char *const *names;
        bool (*look)(struct judge *j, const struct sh_call *c);
} special[] = {
        { WORDS("find", "gfind"), find_call },
        { WORDS("fd", "fdfind"), fd_call },
        { WORDS("git"), git_call },
        { WORDS("eval"), eval_call },
        { WORDS("trap"), trap_call },
        { WORDS("alias"), alias_call },
        { WORDS("export", "declare", "typeset", "local", "readonly", "read", "mapfile", "readarray", "unset",
                "getopts"),
          variable_call },
        { WORDS("set"), set_call },
        { WORDS("shift"), shift_call },
        { WORDS("printf", "let"), numbers_call },
        { WORDS("source", "."), source_call },
        { WORDS("command"), command_call },
};

/* "x --version" and "x --help" start nothing. */
static bool only_asks(const struct sh_call *c) {
        return c->n == 2 && (str_is(c->p[1].text, "--version") || str_is(c->p[1].text, "--help"));
}

bool index_runs(struct str text) {
        ptrdiff_t open = str_find(text, '[');
        struct str index = open < 0 ? STR("") : str_skip(text, (size_t)open);
        return str_find(index, '`') >= 0 || contains(index, STR("$("));
}

/* Builtins that read a variable's name expand the index in it: let 'a[$(x)]' runs x. */
static void judge_indexes(struct judge *j, const struct sh_call *c) {
        static const char *const names[] = { "let",     "test",      "[",       "printf", "read",
                                             "unset",   "declare",   "typeset", "local",  "readonly",
                                             "mapfile", "readarray", "wait",    "export", NULL };
        if (!word_in(c->name, names) || (str_is(c->name, "printf") && !call_has_option(c, "-v")))
                return;
        for (size_t i = 1; i < c->n; i++)
                if (index_runs(c->p[i].text))
                        judge_not_understood(j, "an array's index that runs a command");
}

bool unwrap(struct judge *j, const struct sh_call *c) {
        if (only_asks(c))
                return false;
        judge_indexes(j, c);
        if (is_shell(c->name)) {
                unwrap_shell(j, c);
                return true;
        }
        if (is_interpreter(c->name))
                return interpreter_call(j, c) || runner(j, c);
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
                if (word_in(c->name, special[i].names))
                        return special[i].look(j, c);

        const struct wrapper *w = wrapper_find(c->name);
        if (!w)
                return runner(j, c);

        const struct sh_variable *before = j->where.variables;
        struct str directory = j->directory;
        bool done = through_table(j, c, w);
        j->directory = directory;
        if (w->flags & ASSIGNS) /* for the command alone */
                j->where.variables = j->failed.variables = before;
        return done;
}
