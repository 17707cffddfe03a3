/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that have a program start another one. Two things follow: what they start is judged like any command, and,
 * where nobody expects it of such a program (a pager, an editor, a compiler), a person looks at it. A script in a file
 * is not meant here: it is what `sh script` is.
 */
#include "shell/rules/question.h"

static const struct sh_option inner[] = {
        { WORDS("man"), "PH", WORDS("--pager", "--html"), 0 },
        { WORDS("sort", "gsort"), NULL, WORDS("--compress-program"), 0 },
        { WORDS("rg"), NULL, WORDS("--pre", "--hostname-bin"), 0 },
        { WORDS("bat", "batcat", "delta", "ack", "ag"), NULL, WORDS("--pager"), 0 },
        { WORDS("wget"), NULL, WORDS("--use-askpass"), 0 },
        { WORDS("curl"), "K", WORDS("--config"), OPTION_NO_VALUE },
        { WORDS("zip"), NULL, WORDS("-TT", "--unzip-command"), 0 },
        { WORDS("tcpdump"), "z", NULL, 0 },
        { WORDS("gcc", "g++", "cc", "c++", "clang", "clang++"), NULL, WORDS("-wrapper"), OPTION_NO_VALUE },
        { WORDS("go"), NULL, WORDS("-toolexec", "-exec", "-vettool"), 0 },
        { WORDS("split"), NULL, WORDS("--filter"), 0 },
        { WORDS("npm", "npx", "pnpm", "pnpx", "yarn", "bun"), NULL,
          WORDS("--script-shell", "--shell", "--editor", "--viewer", "--browser"), 0 },
        { WORDS("java"), NULL, WORDS("-XX:OnOutOfMemoryError", "-XX:OnError"), 0 },
        { WORDS("cargo"), NULL, WORDS("--config"), OPTION_NO_VALUE },
        { WORDS("ld", "ld.bfd", "ld.gold", "ld.lld"), NULL, WORDS("-plugin", "--plugin"), OPTION_NO_VALUE },
        { WORDS("fzf"), NULL, WORDS("--preview"), 0 },
        { WORDS("fzf"), NULL, WORDS("--bind"), OPTION_NO_VALUE },
        { WORDS("rpm", "rpmbuild"), "E", WORDS("--eval"), OPTION_NO_VALUE },
        { WORDS("tex", "latex", "pdflatex", "xelatex", "lualatex"), NULL,
          WORDS("-shell-escape", "--shell-escape", "--enable-write18"), OPTION_NO_VALUE },
        { WORDS("ssh-keygen"), "D", NULL, OPTION_NO_VALUE },
        { WORDS("nmap"), NULL, WORDS("--script"), OPTION_NO_VALUE },
        { WORDS("emacs"), NULL, WORDS("--eval", "-eval", "--execute"), OPTION_NO_VALUE },
        /* these are asked about anyway, or are there to start something */
        { WORDS("git"), NULL,
          WORDS("--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--tree-filter",
                "--index-filter", "--msg-filter", "--env-filter", "--commit-filter", "--parent-filter", "--setup"),
          OPTION_SILENT },
        { WORDS("rsync"), "e", WORDS("--rsh", "--rsync-path"), OPTION_SILENT },
        { WORDS("scp", "sftp"), "S", NULL, OPTION_SILENT },
        { WORDS("tar", "gtar", "bsdtar"), "IF",
          WORDS("--to-command", "--use-compress-program", "--rsh-command", "--info-script", "--new-volume-script"),
          OPTION_SILENT },
        { WORDS("script"), "c", WORDS("--command"), OPTION_SILENT },
        { WORDS("nix-shell"), NULL, WORDS("--run", "--command"), OPTION_SILENT },
        { WORDS("hyperfine"), "psc", WORDS("--prepare", "--setup", "--cleanup", "--conclude"), OPTION_SILENT },
};

/* Nothing comes of these but text on the terminal. */
static bool is_pager(struct str text) {
        static const char *const pagers[] = { "cat", "less", "more", "bat", "most", NULL };
        struct str first;
        return str_split(&text, ' ', &first) && word_in(first, pagers) && str_find(text, '+') < 0;
}

static void inner_starts(struct judge *judge, const struct sh_call *call, struct sh_arg command, bool silent) {
        judge_program(judge, call, &command, 1);
        if (!silent && !is_pager(command.text) && !is_compressor(command.text))
                judge_find(judge, FINDING_OPTION_RUNS);
}

static struct sh_arg inner_behind(struct sh_arg arg, size_t n) {
        arg.text = str_trim(str_skip(arg.text, n));
        return arg;
}

/* A command line of vi or less: "!CMD", "r !CMD", "%!CMD"; a ! at the end only insists. */
static void colon_command(struct judge *judge, const struct sh_call *call, struct sh_arg text) {
        ptrdiff_t mark = str_find(text.text, '!');
        if (mark < 0)
                return;
        struct sh_arg command = inner_behind(text, (size_t)mark + 1);
        if (command.text.n)
                inner_starts(judge, call, command, false);
}

/* :call system("x"), :py3 ..., :lua ..., less's |: the editor runs it, or a language in it. */
static void editor_command(struct judge *judge, const struct sh_call *call, struct sh_arg text) {
        static const char *const runs[] = { "system(",   "systemlist(", "execute(",   "termopen(",
                                            "jobstart(", "term_start(", "job_start(", NULL };
        static const char *const languages[] = { "py",   "py3", "python", "python3",  "pyx",  "lua", "luado", "perl",
                                                 "ruby", "tcl", "mz",     "terminal", "term", "te",  "make",  NULL };
        struct str rest = text.text, first;

        while (rest.n && (rest.p[0] == ':' || rest.p[0] == '+' || rest.p[0] == ' '))
                rest = str_skip(rest, 1);

        if (rest.n > 1 && rest.p[0] == '|')
                judge_find(judge, FINDING_OPTION_RUNS);
        if (str_split(&rest, ' ', &first) && word_in(first, languages))
                judge_find(judge, FINDING_OPTION_RUNS);

        for (size_t i = 0; i < text.text.n; i++)
                for (const char *const *p = runs; *p; p++) {
                        struct str behind_word = str_skip(text.text, i);
                        if (!str_starts(behind_word, str_of(*p)))
                                continue;

                        struct str quoted = str_skip(behind_word, strlen(*p) + 1), command;
                        char quote = behind_word.n > strlen(*p) ? behind_word.p[strlen(*p)] : '"';
                        judge_find(judge, FINDING_OPTION_RUNS);

                        if (str_split(&quoted, quote, &command) && command.n)
                                judge_program(judge, call, &(struct sh_arg){ .text = command }, 1);
                }
}

static void inner_editor(struct judge *judge, const struct sh_call *call) {
        const struct sh_option commands = { .letters = "c", .words = WORDS("--cmd"), .flags = OPTION_ALONE };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                if (call->p[i].text.n > 1 && call->p[i].text.p[0] == '+') {
                        colon_command(judge, call, call->p[i]);
                        editor_command(judge, call, call->p[i]);
                } else if (call_option_value(call, i, &commands, &value)) {
                        colon_command(judge, call, value);
                        editor_command(judge, call, value);
                }
        }
}

static void inner_debugger(struct judge *judge, const struct sh_call *call) {
        const struct sh_option commands = { .letters = "o",
                                            .words = WORDS("-ex", "--ex", "-iex", "--eval-command", "-eval-command",
                                                           "--one-line"),
                                            .flags = OPTION_ALONE };
        static const char *const prefixes[] = { "shell ", "!", "platform shell ", "pipe ", "make ", NULL };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                if (!call_option_value(call, i, &commands, &value))
                        continue;
                value.text = str_trim(value.text);

                for (const char *const *p = prefixes; *p; p++)
                        if (str_starts(value.text, str_of(*p)))
                                inner_starts(judge, call, inner_behind(value, strlen(*p)), false);
        }
}

/* ssh's settings by -o: KEY=VALUE or "KEY VALUE"; ProxyCommand and its kin. */
static void ssh_settings(struct judge *judge, const struct sh_call *call) {
        const struct sh_option settings = { .letters = "o", .flags = OPTION_ALONE };
        static const char *const keys[] = { "ProxyCommand", "LocalCommand", "RemoteCommand", "KnownHostsCommand",
                                            NULL };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                if (!call_option_value(call, i, &settings, &value))
                        continue;
                for (const char *const *k = keys; *k; k++) {
                        struct str key = str_of(*k);
                        if (value.text.n > key.n && str_eq_nocase(str_first(value.text, key.n), key))
                                inner_starts(judge, call, inner_behind(value, key.n + 1), true);
                }
        }
}

static void make_shell(struct judge *judge, const struct sh_call *call) {
        static const char *const plain[] = { "sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", NULL };

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                bool shell = str_starts(arg, STR("SHELL="));
                if ((shell && !word_in(str_skip(arg, 6), plain)) || str_starts(arg, STR("SHELL:=")) ||
                    str_starts(arg, STR(".SHELLFLAGS=")))
                        judge_find(judge, FINDING_OPTION_RUNS);
        }
}

/* "npm config set script-shell X", and the other settings that name a program or code. */
static void npm_settings(struct judge *judge, const struct sh_call *call) {
        static const char *const starts[] = { "script-shell", "shell",        "editor",      "viewer",
                                              "browser",      "git",          "scriptShell", "node-options",
                                              "node-gyp",     "script_shell", NULL };
        static const char *const verbs[] = { "config", "c", "set", NULL };

        if (call->n < 3 || !word_in(call->p[1].text, verbs))
                return;

        for (size_t i = 2; i < call->n; i++) {
                struct str arg = call->p[i].text, key;
                bool has_value = str_split(&arg, '=', &key) && arg.n > 0;
                if (word_in(key, starts) && (has_value || i + 1 < call->n))
                        judge_find(judge, FINDING_OPTION_RUNS);
        }
}

/* A compiler that loads what is named here is no longer the compiler. */
static void compiler_plugins(struct judge *judge, const struct sh_call *call) {
        static const char *const loads[] = { "-fplugin=", "-specs=", "--specs=", "-B", "-Xclang", "-load", NULL };
        for (size_t i = 1; i < call->n; i++)
                for (const char *const *p = loads; *p; p++)
                        if (str_starts(call->p[i].text, str_of(*p)))
                                judge->plain_off = true;
}

/* tar --checkpoint-action=exec=CMD */
static void inner_checkpoint(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++) {
                ptrdiff_t equals = str_find(call->p[i].text, '=');
                if (!str_starts(call->p[i].text, STR("--checkpoint-")) || equals < 0)
                        continue;

                struct sh_arg action = inner_behind(call->p[i], (size_t)equals + 1);
                if (str_starts(action.text, STR("exec=")))
                        inner_starts(judge, call, inner_behind(action, 5), true);
        }
}

static void apt_hooks(struct judge *judge, const struct sh_call *call) {
        const struct sh_option settings = { .letters = "o", .words = WORDS("--option"), .flags = OPTION_ALONE };
        struct sh_arg value;
        for (size_t i = 1; i < call->n; i++)
                if (call_option_value(call, i, &settings, &value))
                        for (size_t k = 0; k + 6 <= value.text.n; k++)
                                if (str_eq_nocase(str_n(value.text.p + k, 6), STR("invoke")))
                                        judge_find(judge, FINDING_OPTION_RUNS);
}

/* expect -c 'spawn CMD' */
static void expect_script(struct judge *judge, const struct sh_call *call) {
        const struct sh_option script = { .letters = "c" };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                if (!call_option_value(call, i, &script, &value))
                        continue;
                for (size_t k = 0; k + 6 < value.text.n; k++)
                        if (str_starts(str_skip(value.text, k), STR("spawn ")))
                                inner_starts(judge, call, inner_behind(value, k + 6), false);
        }
}

/* zip -TTCMD */
static void zip_test(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n > 3 && str_starts(call->p[i].text, STR("-TT")))
                        inner_starts(judge, call, inner_behind(call->p[i], 3), false);
}

/* dc and ed run what stands behind a ! at the beginning of a line, wherever the line comes from. */
static void bang_lines(struct judge *judge, const struct sh_call *call, struct str text) {
        struct str line;

        while (str_split(&text, '\n', &line)) {
                ptrdiff_t mark = str_find(line, '!');
                struct str command = str_trim(str_skip(line, (size_t)(mark + 1)));
                bool compares = command.n && strchr("<>=", command.p[0]); /* dc: !<r */
                if (mark >= 0 && command.n && !compares)
                        inner_starts(judge, call, (struct sh_arg){ .text = command }, false);
        }
}

static void inner_calculator(struct judge *judge, const struct sh_call *call) {
        const struct sh_option expression = { .letters = "e", .words = WORDS("--expression") };
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++)
                if (call_option_value(call, i, &expression, &value))
                        bang_lines(judge, call, value.text);

        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING)
                        bang_lines(judge, call, sh_word_to_arg(judge, redirect->target).text);

        if (call->pipe_facts & FACT_COMMANDS)
                judge_find(judge, FINDING_OPTION_RUNS);
}

/* "git clone -u CMD", "git ls-remote --exec": -u is something else with push. */
static void clone_program(struct judge *judge, const struct sh_call *call) {
        const struct sh_option program = { .letters = "u", .flags = OPTION_ALONE };
        struct sh_arg value;

        if (!str_is(call_subcommand(call), "clone"))
                return;

        for (size_t i = call_subcommand_index(call) + 1; i < call->n; i++)
                if (call_option_value(call, i, &program, &value))
                        inner_starts(judge, call, value, false);
}

/* "node --import data:text/javascript,..." is code, as a URL. */
static void node_imports(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (memmem(arg.p, arg.n, "data:text/javascript", 20) || memmem(arg.p, arg.n, "data:application/", 17))
                        judge_find(judge, FINDING_CODE_HIDDEN);
        }
}

/* "deno run https://..." */
static void deno_fetches(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++)
                if (str_starts(call->p[i].text, STR("http://")) || str_starts(call->p[i].text, STR("https://")))
                        judge_find(judge, FINDING_OPTION_RUNS);
}

static const struct {
        const char *const *programs;
        void (*look)(struct judge *j, const struct sh_call *c);
} special[] = {
        { WORDS("git"), clone_program },
        { WORDS("node", "nodejs", "tsx", "ts-node"), node_imports },
        { WORDS("deno"), deno_fetches },
        { WORDS("vi", "vim", "nvim", "view", "gvim", "ex", "less", "more", "most"), inner_editor },
        { WORDS("gdb", "lldb", "gdb-multiarch"), inner_debugger },
        { WORDS("ssh", "scp", "sftp", "autossh", "sshfs"), ssh_settings },
        { WORDS("make", "gmake", "bmake"), make_shell },
        { WORDS("npm", "pnpm", "yarn"), npm_settings },
        { WORDS("gcc", "g++", "cc", "c++", "clang", "clang++"), compiler_plugins },
        { WORDS("tar", "gtar"), inner_checkpoint },
        { WORDS("apt", "apt-get", "aptitude"), apt_hooks },
        { WORDS("expect"), expect_script },
        { WORDS("zip"), zip_test },
        { WORDS("dc", "ed", "red"), inner_calculator },
};

void judge_inner(struct judge *judge, const struct sh_call *call) {
        struct sh_arg value;

        if (call->n < 2 && !call->redirects && !call->pipe_facts)
                return;

        for (size_t k = 0; k < sizeof inner / sizeof inner[0]; k++) {
                if (!word_in(call->name, inner[k].programs))
                        continue;
                size_t end = call_options_end(call, &inner[k]);
                for (size_t i = 1; i < end; i++) {
                        if (!call_option_value(call, i, &inner[k], &value))
                                continue;
                        if (inner[k].flags & OPTION_NO_VALUE)
                                judge_find(judge, FINDING_OPTION_RUNS);
                        else if (value.text.n)
                                inner_starts(judge, call, value, inner[k].flags & OPTION_SILENT);
                }
        }

        for (size_t k = 0; k < sizeof special / sizeof special[0]; k++)
                if (word_in(call->name, special[k].programs))
                        special[k].look(judge, call);
}
