/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that start other programs: looked through, so that what they start is judged as if it stood there alone.
 * Most are rows of a table (which options take a value, how many operands come before the command). Shells, find,
 * xargs, git and the builtins that take text have a function each.
 */
#include "shell/rules/question.h"
#include "shell/variables.h"
#include "shell/wrappers.h"

#include <stdlib.h>

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

/* env takes any name: a-b=1, BASH_FUNC_ls%%=... */
static bool sets_variable(struct str word, struct str *ret_name, struct str *ret_value) {
        ptrdiff_t equals = str_find(word, '=');
        if (equals <= 0)
                return false;

        *ret_name = str_first(word, (size_t)equals);
        *ret_value = str_skip(word, (size_t)equals + 1);

        return true;
}

/* The value of an option: the rest of its word, or the next one. */
static struct sh_arg text_behind(const struct sh_call *call, size_t i, struct str rest, bool inside) {
        struct sh_arg value;
        if (inside)
                value = call->p[i];
        else if (i + 1 < call->n)
                value = call->p[i + 1];
        else
                value = (struct sh_arg){ .text = STR("") };

        if (inside)
                value.text = rest;
        return value;
}

static void found_text(struct judge *judge, const struct sh_call *call, const struct wrapper *wrapper,
                       struct sh_arg text, struct scan *scan) {
        scan->text_done = true;
        if (wrapper->text_letter == 'S')
                scan->split = text; /* the words behind belong to it */
        else
                judge_program(judge, call, &text, 1);
}

/* -abcVALUE or -abc VALUE; returns how many words were taken. */
static size_t short_options(struct judge *judge, const struct sh_call *call, const struct wrapper *wrapper, size_t i,
                            struct scan *scan) {
        struct str arg = call->p[i].text;
        for (size_t k = 1; k < arg.n; k++) {
                bool text = wrapper->text_letter && arg.p[k] == wrapper->text_letter;
                if (!text && !(arg.p[k] && strchr(wrapper->valued, arg.p[k])))
                        continue;

                bool inside = k + 1 < arg.n;
                if (text)
                        found_text(judge, call, wrapper, text_behind(call, i, str_skip(arg, k + 1), inside), scan);

                return inside ? 1 : 2;
        }

        return 1;
}

static size_t long_option(struct judge *judge, const struct sh_call *call, const struct wrapper *wrapper, size_t i,
                          struct scan *scan) {
        struct str arg = call->p[i].text;
        ptrdiff_t equals = str_find(arg, '=');
        struct str name = equals >= 0 ? str_first(arg, (size_t)equals) : arg;
        if (wrapper->text_long && name.n >= 4 && str_starts(str_of(wrapper->text_long), name)) {
                found_text(judge, call, wrapper, text_behind(call, i, str_skip(arg, (size_t)equals + 1), equals >= 0),
                           scan);
                return equals >= 0 ? 1 : 2;
        }

        return equals < 0 && wrapper->valued_long && word_in(name, wrapper->valued_long) ? 2 : 1;
}

static struct scan find_command(struct judge *judge, const struct sh_call *call, const struct wrapper *wrapper) {
        struct scan scan = { .at = 1 };
        unsigned operands = wrapper->operands;
        bool options = true;

        while (scan.at < call->n) {
                struct str arg = call->p[scan.at].text, name, value;
                if (options && str_is(arg, "--")) {
                        options = false;
                        scan.at++;
                } else if (options && arg.n > 1 && arg.p[0] == '-')
                        scan.at += arg.p[1] == '-' ? long_option(judge, call, wrapper, scan.at, &scan)
                                                   : short_options(judge, call, wrapper, scan.at, &scan);
                else if (str_is(arg, "-") && options)
                        scan.at++;
                else if ((wrapper->flags & ASSIGNS) && sets_variable(arg, &name, &value)) {
                        struct sh_arg given = call->p[scan.at];

                        given.text = value;
                        judge_environment(judge, name, value);
                        variables_set(judge, name, given);
                        variables_export(judge, name);
                        scan.at++;
                } else if (operands > 0) {
                        operands--;
                        scan.at++;
                } else
                        break;
        }

        if (scan.at >= call->n)
                scan.at = call->n;
        return scan;
}

/* The words, and one more that stands for what is fed in; so does every word with the token in it. */
static void judge_fed(struct judge *judge, const struct sh_arg *args, size_t n, struct str token) {
        struct sh_args more = { 0 };

        for (size_t i = 0; i < n; i++) {
                struct sh_arg arg = args[i];
                if (i > 0 && word_holds(arg.text, token))
                        arg.unknown = arg.fed = true;
                if (sh_args_add(judge, &more, arg) < 0)
                        return;
        }

        if (sh_args_add(judge, &more, (struct sh_arg){ .text = str_n("", 1), .unknown = true, .fed = true }) == 0)
                judge_call(judge, more.p, more.n);
}

/* xargs -I % and -I%: what is replaced; {} otherwise. */
static struct str feed_token(const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (str_is(arg, "-I") && i + 1 < call->n)
                        return call->p[i + 1].text;
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
static void judge_sources(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n,
                          size_t all) {
        bool unknown;
        struct str text = sh_args_join(judge, args, n, &unknown);

        for (size_t i = n + 1; i < all; i++)
                for (size_t k = 0; k + 2 <= text.n; k++) {
                        if (memcmp(text.p + k, "{}", 2) != 0)
                                continue;

                        struct str word = args[i].text;
                        char *filled = arena_get(&judge->arena, text.n + word.n + 1);
                        if (!filled)
                                return;

                        memcpy(filled, text.p, k);
                        memcpy(filled + k, word.p, word.n);
                        memcpy(filled + k + word.n, text.p + k + 2, text.n - k - 2);

                        const struct sh_arg one = { .text = str_n(filled, text.n + word.n - 2), .unknown = unknown };
                        judge_program(judge, call, &one, 1);
                        break;
                }
}

/* env -S TEXT WORDS: one command. */
static void judge_split(struct judge *judge, const struct sh_call *call, const struct scan *scan) {
        struct sh_args words = { 0 };
        int r = sh_args_add(judge, &words, scan->split);
        for (size_t i = scan->at; r == 0 && i < call->n; i++)
                r = sh_args_add(judge, &words, call->p[i]);
        if (r == 0)
                judge_program(judge, call, words.p, words.n);
}

/* xargs rm -r <<< /: what is fed in stands there. */
static unsigned facts_of_input(struct judge *judge, const struct sh_call *call) {
        unsigned facts = 0;

        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next) {
                if (redirect->kind != SH_HERE_DOCUMENT && redirect->kind != SH_HERE_STRING)
                        continue;

                struct sh_arg word = sh_word_to_arg(judge, redirect->target);
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
static struct sh_args moved_args(struct judge *judge, const struct sh_call *call, size_t at) {
        struct sh_args args = { 0 };
        struct sh_arg to;

        for (size_t k = 0; k < sizeof moves / sizeof moves[0]; k++)
                for (size_t i = 1; word_in(call->name, moves[k].programs) && i < at; i++)
                        if (call_option_value(call, i, &moves[k], &to))
                                judge->directory = place_behind(&judge->arena, judge->directory, to);

        where_set(&judge->where, judge->directory);

        for (size_t i = at; i < call->n; i++) {
                struct sh_arg arg = call->p[i];

                arg.under = judge->directory;
                if (sh_args_add(judge, &args, arg) < 0)
                        break;
        }

        return args;
}

/* xargs and parallel: a file that has the words. */
static void judge_arg_file(struct judge *judge, const struct sh_call *call, size_t at) {
        const struct sh_option file = { .letters = "a", .words = WORDS("--arg-file"), .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < at; i++)
                if (call_option_value(call, i, &file, &value)) {
                        judge->pipe_facts &= ~(unsigned)FACT_LISTS;
                        if (names_credential(value))
                                judge_find(judge, FINDING_REDIRECT_CREDENTIAL);
                }
}

/* parallel without a command: each line is one. */
static void reads_commands(struct judge *judge, const struct sh_call *call) {
        bool file = call_has_any(call, WORDS("-a", "--arg-file"));

        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                file = file || redirect->kind == SH_READ;
        if (file)
                judge_not_understood(judge, "which commands run stands in a file");
        judge->facts |= FACT_READS_PROGRAM;
}

static bool through_table(struct judge *judge, const struct sh_call *call, const struct wrapper *wrapper) {
        if (wrapper->finding >= 0)
                judge_find(judge, (enum sh_finding)wrapper->finding);

        struct scan scan = find_command(judge, call, wrapper);
        struct sh_args moved = moved_args(judge, call, scan.at);

        if (scan.split.text.n) {
                judge_split(judge, call, &scan);
                return true;
        }

        if (scan.at >= call->n) {
                if (str_is(call->name, "parallel") && !scan.text_done)
                        reads_commands(judge, call);
                if (wrapper->finding < 0 && !scan.text_done)
                        return false; /* no command: an ordinary program */
                return true;
        }

        if (scan.text_done)
                return true;

        const struct sh_arg *rest = moved.p;
        size_t n = moved.n;
        for (size_t i = 1; wrapper->finding == FINDING_ELEVATE && wrapper->text_letter && i + 1 < n; i++)
                if (str_is(rest[i].text, "-c") || str_is(rest[i].text, "--command"))
                        judge_program(judge, call, &rest[i + 1], 1); /* runuser USER -c TEXT */

        unsigned pipe_before = judge->pipe_facts;
        size_t sources = wrapper->flags & JOINS ? find_sources(rest, n) : n, all = n;
        if (sources < n && (judge->facts & FACT_NAMES_ROOT))
                judge->pipe_facts |= FACT_NAMES_ROOT; /* they are what is fed in */
        if ((wrapper->flags & FEEDS) && (wrapper->flags & JOINS))
                judge_sources(judge, call, rest, sources, n);

        n = sources;
        if (sources < all)
                judge->pipe_facts |= FACT_LISTS;

        if (wrapper->flags & FEEDS) {
                judge->pipe_facts |= facts_of_input(judge, call);
                judge_arg_file(judge, call, scan.at);
        }

        if (wrapper->flags & FEEDS)
                judge_fed(judge, rest, n, feed_token(call));
        else if (!(wrapper->flags & JOINS) || str_is(call->name, "watch")) /* watch -x joins nothing */
                judge_call(judge, rest, n);

        if (wrapper->flags & JOINS)
                judge_program(judge, call, rest, n);

        judge->pipe_facts = pipe_before;
        return !(wrapper->flags & ITSELF);
}

/* --- shells and interpreters -------------------------------------------------------------------------------------- */

/* A here-document or here-string is the program when nothing else is. */
static bool program_from_here(struct judge *judge, const struct sh_call *call) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING) {
                        struct sh_arg text = sh_word_to_arg(judge, redirect->target);
                        judge_program(judge, call, &text, 1);
                        return true;
                }
        return false;
}

static void reads_program(struct judge *judge, const struct sh_call *call) {
        if (program_from_here(judge, call))
                return;
        if (call->inner_facts & FACT_DOWNLOADS)
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        judge->facts |= FACT_READS_PROGRAM;
        judge_decide(judge, SH_SANDBOXED, NULL);
}

static bool is_standard_input(struct str operand) {
        return str_is(operand, "-") || str_is(operand, "/dev/stdin") || str_is(operand, "/dev/fd/0") ||
               str_is(operand, "/proc/self/fd/0");
}

/* Another descriptor as a script: `. /dev/fd/3 3< <(curl ...)`, or one that an `exec` opened before. */
static bool is_descriptor(struct str operand) {
        return str_starts(operand, STR("/dev/fd/")) || str_starts(operand, STR("/proc/self/fd/"));
}

static void descriptor_runs(struct judge *judge, const struct sh_call *call) {
        judge_find(judge, call->inner_facts & FACT_DOWNLOADS ? FINDING_PIPE_DOWNLOAD : FINDING_PIPE_PROGRAM);
}

static void script_file(struct judge *judge, const struct sh_call *call, const struct sh_arg *script) {
        if (is_standard_input(script->text))
                reads_program(judge, call);
        else if (is_descriptor(script->text))
                descriptor_runs(judge, call);
        else if (script->unknown && (call->inner_facts & FACT_DOWNLOADS))
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        else if (script->process)
                judge_find(judge, FINDING_PIPE_PROGRAM);
        else if (script->fed && !(call->pipe_facts & FACT_LISTS))
                judge_not_understood(judge, "which scripts run is known only when it runs");
        else
                judge_decide(judge, SH_SANDBOXED, NULL);
}

/* -c TEXT, and behind it what the text knows as $0, $1 and so on. */
static void shell_text(struct judge *judge, const struct sh_call *call, size_t at) {
        variables_enter_program(judge);
        if (at + 1 < call->n) {
                variables_set(judge, STR("0"), call->p[at + 1]);
                variables_set_array(judge, STR("@"), call->p + at + 2, call->n - at - 2);
        }
        judge_program_here(judge, call, &call->p[at], 1);
}

void unwrap_shell(struct judge *judge, const struct sh_call *call) {
        const struct sh_where where = judge->where; /* its own cd ends with it */
        struct str directory = judge->directory;
        bool text = false, input = false;
        size_t i = 1;
        for (; i < call->n; i++) {
                struct str arg = call->p[i].text;
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

        if (text && i < call->n)
                shell_text(judge, call, i);
        else if (text)
                judge_not_understood(judge, "a shell without its program");
        else if (i < call->n && !input)
                script_file(judge, call, &call->p[i]);
        else
                reads_program(judge, call);

        judge->where = judge->failed = where;
        judge->directory = directory;
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

static void interpreter_reads(struct judge *judge, const struct sh_call *call) {
        const struct sh_redirect *first = call->redirects;

        if (call->inner_facts & FACT_DOWNLOADS)
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        if (!first || (first->kind != SH_HERE_DOCUMENT && first->kind != SH_HERE_STRING))
                judge->facts |= FACT_READS_PROGRAM;
}

static bool interpreter_call(struct judge *judge, const struct sh_call *call) {
        const struct sh_arg *script = code_script(call);

        for (size_t i = 1; i < call->n; i++)
                if (looks_like_reverse_shell(call->p[i].text))
                        judge_find(judge, FINDING_REVERSE_SHELL);

        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if ((redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING) &&
                    looks_like_reverse_shell(sh_word_to_arg(judge, redirect->target).text))
                        judge_find(judge, FINDING_REVERSE_SHELL);

        if ((!script && !code_in_options(call)) || (script && is_standard_input(script->text)))
                interpreter_reads(judge, call);
        else if ((call->inner_facts & FACT_DOWNLOADS) && code_is_unknown(call))
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        else if (script && is_descriptor(script->text))
                descriptor_runs(judge, call);
        else if (script && script->process)
                judge_find(judge, FINDING_PIPE_PROGRAM);

        return false; /* the rules apply as well: python -m pip, perl -i */
}

/* --- find, fd, git, builtins -------------------------------------------------------------------------------------- */

static bool find_call(struct judge *judge, const struct sh_call *call) {
        static const char *const runs[] = { "-exec", "-execdir", "-ok", "-okdir", NULL };
        unsigned before = judge->pipe_facts;

        judge->pipe_facts |= judge->facts & (FACT_NAMES_ROOT | FACT_NAMES_SECRET); /* {} stands for what is below */
        judge->pipe_facts |= FACT_LISTS;

        for (size_t i = 1; i < call->n; i++) {
                if (!word_in(call->p[i].text, runs))
                        continue;

                size_t end = i + 1;
                while (end < call->n && !str_is(call->p[end].text, ";") && !str_is(call->p[end].text, "+"))
                        end++;

                judge_fed(judge, call->p + i + 1, end - i - 1, STR("{}"));
                i = end;
        }

        judge->pipe_facts = before;
        return false;
}

/* fd -x CMD, -xCMD, --exec CMD, --exec=CMD: the rest of the line, with what was found behind it. */
static bool fd_call(struct judge *judge, const struct sh_call *call) {
        const struct sh_option runs = { .letters = "xX",
                                        .words = WORDS("--exec", "--exec-batch"),
                                        .flags = OPTION_ALONE };
        unsigned before = judge->pipe_facts;
        struct sh_arg value;

        judge->pipe_facts |= (judge->facts & (FACT_NAMES_ROOT | FACT_NAMES_SECRET)) | FACT_LISTS;

        for (size_t i = 1; i < call->n; i++) {
                if (!call_option_value(call, i, &runs, &value) || value.text.n == 0)
                        continue;

                bool inside = i + 1 >= call->n || value.text.p != call->p[i + 1].text.p;
                struct sh_args words = { 0 };
                int r = sh_args_add(judge, &words, value);
                for (size_t k = i + (inside ? 1 : 2); r == 0 && k < call->n && !str_is(call->p[k].text, ";"); k++)
                        r = sh_args_add(judge, &words, call->p[k]);

                judge_fed(judge, words.p, words.n, STR("{}"));
                break;
        }

        judge->pipe_facts = before;
        return false;
}

static bool eval_call(struct judge *judge, const struct sh_call *call) {
        judge_find(judge, FINDING_EVAL);
        if (call->n > 1)
                judge_program_here(judge, call, call->p + 1, call->n - 1);
        return true;
}

static bool trap_call(struct judge *judge, const struct sh_call *call) {
        const struct sh_arg *action = call_operand(call, 0);
        if (action && !str_is(action->text, "-") && call_operand(call, 1))
                judge_program_here(judge, call, action, 1);
        judge_decide(judge, SH_SANDBOXED, NULL);
        return true;
}

static bool alias_call(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++) {
                ptrdiff_t equals = str_find(call->p[i].text, '=');
                if (equals <= 0)
                        continue;

                struct sh_arg value = call->p[i];
                value.text = str_skip(value.text, (size_t)equals + 1);
                judge_program(judge, call, &value, 1);
        }

        judge_decide(judge, SH_SANDBOXED, NULL);
        return true;
}

/* export x=1, local x: what is bound, and how. */
static void declare_name(struct judge *judge, const struct sh_call *call, struct str name, const struct sh_arg *value) {
        static const char *const local[] = { "local", "declare", "typeset", NULL };
        bool reference = call_has_option(call, "-n") && !str_is(call->name, "export");
        bool global = call_has_option(call, "-g") && !str_is(call->name, "local");

        if (reference)
                variables_forget(judge, name);
        else if (value)
                variables_set(judge, name, *value);

        if (str_is(call->name, "export") || call_has_option(call, "-x"))
                variables_export(judge, name);
        if (judge->function.n && word_in(call->name, local) && !global)
                variables_make_local(judge, name);
}

/* export, declare and their kin, and what writes into variables: read, unset, mapfile. */
static bool variable_call(struct judge *judge, const struct sh_call *call) {
        static const char *const reading[] = { "read", "unset", "mapfile", "readarray", "getopts", NULL };
        bool plain_before = judge->plain_off, reads = word_in(call->name, reading);

        if ((str_is(call->name, "mapfile") || str_is(call->name, "readarray")) && call_has_option(call, "-C"))
                judge_not_understood(judge, "a command for each line");

        for (size_t i = 1; i < call->n; i++) {
                struct str name, value;

                if (call->p[i].text.n && call->p[i].text.p[0] == '-')
                        continue;

                if (!reads && is_assignment(call->p[i].text, &name, &value)) {
                        struct sh_arg given = call->p[i];

                        given.text = value;
                        judge_environment(judge, name, value);
                        if (call_has_option(call, "-n") && !str_is(call->name, "export")) /* a name for another one */
                                judge_environment(judge, value, STR("x"));

                        declare_name(judge, call, name, &given);
                        continue;
                }

                if (reads || call->p[i].unknown)
                        judge_environment(judge, call->p[i].text, STR("x"));

                if (reads)
                        variables_forget(judge, call->p[i].text);
                else if (call->p[i].unknown)
                        variables_forget_all(judge);
                else
                        declare_name(judge, call, call->p[i].text, NULL);
        }

        if (str_is(call->name, "read") || str_is(call->name, "mapfile") || str_is(call->name, "readarray")) {
                variables_forget(judge, STR("REPLY"));
                variables_forget(judge, STR("MAPFILE"));
        }

        judge->plain_off = plain_before;
        judge_decide(judge, SH_SANDBOXED, NULL);

        return true;
}

/* set -- WORDS: the parameters of this shell. */
static bool set_call(struct judge *judge, const struct sh_call *call) {
        size_t i = 1;

        while (i < call->n && call->p[i].text.n > 1 && (call->p[i].text.p[0] == '-' || call->p[i].text.p[0] == '+')) {
                bool last = str_is(call->p[i].text, "--");

                i += call->p[i].text.p[call->p[i].text.n - 1] == 'o' ? 2 : 1;
                if (last)
                        break;
        }

        if (i < call->n || (i > 1 && str_is(call->p[i - 1].text, "--")))
                variables_set_array(judge, STR("@"), call->p + i, i < call->n ? call->n - i : 0);

        return false;
}

static bool shift_call(struct judge *judge, const struct sh_call *call) {
        const struct sh_value *all = variables_pick(judge, STR("@"));
        uint64_t by = 1;
        bool known = call->n < 2 || str_to_u64(call->p[1].text, 1000, &by);

        if (all && all->array && known && by <= all->n)
                variables_set_array(judge, STR("@"), all->items + by, all->n - (size_t)by);
        else
                variables_forget(judge, STR("@"));

        return false;
}

/* printf -v NAME and let: whatever they put there. */
static bool numbers_call(struct judge *judge, const struct sh_call *call) {
        const struct sh_option name = { .letters = "v", .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++)
                if (str_is(call->name, "let"))
                        variables_forget_named(judge, call->p[i].text);
                else if (call_option_value(call, i, &name, &value))
                        variables_forget(judge, value.text);

        return false;
}

/* A script in a file may set any variable. One that a command prints is as much as a pipe into a shell. */
static bool source_call(struct judge *judge, const struct sh_call *call) {
        if (call->n > 1 && (call->inner_facts & FACT_DOWNLOADS) && call->p[1].unknown)
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        else if (call->n > 1 && call->p[1].process)
                judge_find(judge, FINDING_PIPE_PROGRAM);

        variables_forget_all(judge);
        if (call->n > 1 && is_standard_input(call->p[1].text))
                reads_program(judge, call);
        else if (call->n > 1 && is_descriptor(call->p[1].text))
                descriptor_runs(judge, call);

        return false;
}

/* "command -v x" only asks where it is. */
static bool command_call(struct judge *judge, const struct sh_call *call) {
        if (call->n > 1 && (str_is(call->p[1].text, "-v") || str_is(call->p[1].text, "-V")))
                return false;

        size_t i = 1;
        while (i < call->n && (str_is(call->p[i].text, "-p") || str_is(call->p[i].text, "--")))
                i++;

        if (i < call->n)
                judge_call(judge, call->p + i, call->n - i);

        return i < call->n;
}

/* git submodule foreach [--recursive] TEXT */
static void foreach_module(struct judge *judge, const struct sh_call *call, size_t at) {
        while (at < call->n && str_starts(call->p[at].text, STR("-")))
                at++;
        if (at < call->n)
                judge_program(judge, call, call->p + at, call->n - at);
}

/* What git runs by itself: aliases given on the spot, bisect run, submodule foreach, rebase --exec. */
static bool git_call(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i + 1 < call->n; i++) {
                struct sh_arg next = call->p[i + 1];

                if (str_is(call->p[i].text, "-c")) {
                        ptrdiff_t equals = str_find(next.text, '=');

                        next.text = equals >= 0 ? str_skip(next.text, (size_t)equals + 1) : STR("");
                        next.text = str_skip(next.text, next.text.n && next.text.p[0] == '!');
                        if (next.text.n && git_runs_setting(call)) /* some setting here names a program */
                                judge_program(judge, call, &next, 1);
                } else if (str_is(call->p[i].text, "-x") &&
                           (call_has_word(call, "rebase") || call_has_word(call, "difftool")))
                        judge_program(judge, call, &next, 1);
                else if (str_is(call->p[i].text, "run") && call_has_word(call, "bisect"))
                        judge_call(judge, call->p + i + 1, call->n - i - 1);
                else if (str_is(call->p[i].text, "foreach") && call_has_word(call, "submodule"))
                        foreach_module(judge, call, i + 1);
        }

        const struct sh_option pager = { .letters = "O", .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; call_has_word(call, "grep") && i < call->n; i++)
                if (call->p[i].text.n > 2 && call_option_value(call, i, &pager, &value))
                        judge_program(judge, call, &value, 1);

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
static bool only_asks(const struct sh_call *call) {
        return call->n == 2 && (str_is(call->p[1].text, "--version") || str_is(call->p[1].text, "--help"));
}

/* Builtins that read a variable's name expand the index in it: let 'a[$(x)]' runs x. */
static void judge_indexes(struct judge *judge, const struct sh_call *call) {
        static const char *const names[] = { "let",     "test",      "[",       "printf", "read",
                                             "unset",   "declare",   "typeset", "local",  "readonly",
                                             "mapfile", "readarray", "wait",    "export", NULL };
        if (!word_in(call->name, names) || (str_is(call->name, "printf") && !call_has_option(call, "-v")))
                return;

        for (size_t i = 1; i < call->n; i++)
                if (index_runs(call->p[i].text))
                        judge_not_understood(judge, "an array's index that runs a command");
}

bool unwrap(struct judge *judge, const struct sh_call *call) {
        if (only_asks(call))
                return false;

        judge_indexes(judge, call);

        if (is_shell(call->name)) {
                unwrap_shell(judge, call);
                return true;
        }

        if (is_interpreter(call->name))
                return interpreter_call(judge, call) || runner(judge, call);

        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
                if (word_in(call->name, special[i].names))
                        return special[i].look(judge, call);

        const struct wrapper *wrapper = wrapper_find(call->name);
        if (!wrapper)
                return runner(judge, call);

        const struct sh_variable *before = judge->where.variables;
        struct str directory = judge->directory;
        bool done = through_table(judge, call, wrapper);
        judge->directory = directory;

        if (wrapper->flags & ASSIGNS) /* for the command alone */
                judge->where.variables = judge->failed.variables = before;

        return done;
}
