/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More programs that start others, each with a way of its own to say what: a verb and the words behind it, everything
 * behind a mark, operands that a shell reads. Those that fit a row of wrappers.c are there.
 */
#include "shell/call.h"

#include "base/bounds.h"

#include <stdio.h>

static bool is_option(struct str arg) {
        return arg.n > 1 && arg.p[0] == '-';
}

/* Where the command begins behind a verb: its options are skipped, those of the list with their value. */
static size_t command_behind(const struct sh_call *call, size_t at, const char *const *valued) {
        while (at < call->n && is_option(call->p[at].text)) {
                bool last = str_is(call->p[at].text, "--");
                at += word_in(call->p[at].text, valued) ? 2 : 1;
                if (last)
                        break;
        }
        return min_of(at, call->n);
}

static void judge_rest(struct judge *judge, const struct sh_call *call, size_t at) {
        if (at < call->n)
                judge_call(judge, call->p + at, call->n - at);
}

/* "uv run x", "poetry run x", "bundle exec x", "conda run -n y x": the words behind. */
static bool verb_runs(struct judge *judge, const struct sh_call *call) {
        static const char *const verbs[] = { "run", "exec", "x", NULL };
        static const char *const valued[] = { "-n",          "--name",    "-p",         "--prefix", "--cwd",
                                              "--with",      "--python",  "--env-file", "--extra",  "--group",
                                              "--directory", "--project", "--package",  NULL };
        const struct sh_arg *verb = call_operand(call, 0);
        if (!verb || !word_in(verb->text, verbs))
                return false;

        size_t at = command_behind(call, (size_t)(verb - call->p) + 1, valued);
        judge_rest(judge, call, at);

        return at < call->n;
}

/* "npm exec -- x", "npm exec -c TEXT", "pnpm dlx x", "bun x y": perhaps fetched first, so it is never plain. */
static bool package_runs(struct judge *judge, const struct sh_call *call) {
        static const char *const verbs[] = { "exec", "x", "dlx", NULL };
        static const char *const valued[] = { "-p", "--package", "-w", "--workspace", "-C", "--dir", "--filter", NULL };
        const struct sh_option text = { .letters = "c", .words = WORDS("--call", "--shell-mode") };
        const struct sh_arg *verb = call_operand(call, 0);
        struct sh_arg value;

        if (!verb || !word_in(verb->text, verbs))
                return false;

        size_t from = (size_t)(verb - call->p) + 1, at = command_behind(call, from, valued);
        judge_decide(judge, SH_SANDBOXED, NULL);

        for (size_t i = from; i < at; i++)
                if (call_option_value(call, i, &text, &value)) {
                        judge_program(judge, call, &value, 1);
                        return true;
                }

        if (at + 1 == call->n) /* yarn exec TEXT, bun exec TEXT */
                judge_program(judge, call, call->p + at, 1);
        else
                judge_rest(judge, call, at);

        return true;
}

/* "perf stat x", "perf record -g -- x" */
static bool perf_runs(struct judge *judge, const struct sh_call *call) {
        static const char *const verbs[] = { "stat", "record", "trace", "ftrace", NULL };
        static const char *const valued[] = { "-e", "-F", "-o", "-C", "-r", "-I", "-c", "-D", "-m", NULL };
        const struct sh_arg *verb = call_operand(call, 0);
        if (verb && word_in(verb->text, verbs))
                judge_rest(judge, call, command_behind(call, (size_t)(verb - call->p) + 1, valued));
        return false;
}

/* "ip netns exec NAME x" */
static bool netns_runs(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i + 3 < call->n; i++)
                if (str_is(call->p[i].text, "netns") && str_is(call->p[i + 1].text, "exec"))
                        judge_rest(judge, call, i + 3);
        return false;
}

/* "cmake -E rm -rf x", "cmake -E env A=1 x": cmake's own tools have the meaning of the system's, and most of the names.
 */
static bool cmake_runs(struct judge *judge, const struct sh_call *call) {
        static const struct {
                const char *name, *words[2];
        } others[] = { { "copy", { "cp" } },
                       { "copy_if_different", { "cp" } },
                       { "copy_directory", { "cp" } },
                       { "rename", { "mv" } },
                       { "create_symlink", { "ln" } },
                       { "create_hardlink", { "ln" } },
                       { "make_directory", { "mkdir" } },
                       { "remove", { "rm" } },
                       { "remove_directory", { "rm", "-r" } },
                       { "chdir", { "env", "-C" } } };
        struct sh_args words = { 0 };
        size_t at = 2;

        if (call->n <= 2 || !str_is(call->p[1].text, "-E"))
                return false;

        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                if (str_is(call->p[2].text, others[i].name)) {
                        for (size_t k = 0; k < 2 && others[i].words[k]; k++)
                                if (sh_args_add(judge, &words, judge_arg(judge, str_of(others[i].words[k]))) < 0)
                                        return false;
                        at = 3;
                }

        for (; at < call->n; at++)
                if (sh_args_add(judge, &words, call->p[at]) < 0)
                        return false;

        judge_call(judge, words.p, words.n);
        return false;
}

/* Everything behind a mark is a command; a single word is text for a shell. */
static void behind_mark(struct judge *judge, const struct sh_call *call, const char *const *marks) {
        for (size_t i = 1; i + 1 < call->n; i++) {
                if (!word_in(call->p[i].text, marks))
                        continue;
                if (i + 2 == call->n)
                        judge_program(judge, call, call->p + i + 1, 1);
                else
                        judge_rest(judge, call, i + 1);

                return;
        }
}

static bool dashes_run(struct judge *judge, const struct sh_call *call) {
        behind_mark(judge, call, WORDS("--"));
        return false;
}

static bool terminal_runs(struct judge *judge, const struct sh_call *call) {
        behind_mark(judge, call, WORDS("-e", "-x", "--", "--command", "--execute"));
        return false;
}

/* "capsh [options] -- ARGS": a shell gets the rest. */
static bool capsh_runs(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++)
                if (str_is(call->p[i].text, "--") || str_is(call->p[i].text, "==")) {
                        struct sh_call shell = *call;

                        shell.p = call->p + i;
                        shell.n = call->n - i;
                        unwrap_shell(judge, &shell);
                        break;
                }

        return false;
}

/* "start-stop-daemon --start --exec PROGRAM -- ARGS" */
static bool daemon_runs(struct judge *judge, const struct sh_call *call) {
        const struct sh_option program = { .letters = "xa", .words = WORDS("--exec", "--startas") };
        struct sh_args words = { 0 };
        struct sh_arg value;
        size_t i = 1;
        for (; i < call->n && !str_is(call->p[i].text, "--"); i++)
                if (!str_is(call->p[i].text, "--start") && call_option_value(call, i, &program, &value) &&
                    words.n == 0 && sh_args_add(judge, &words, value) < 0)
                        return false;

        for (i++; words.n && i < call->n; i++)
                if (sh_args_add(judge, &words, call->p[i]) < 0)
                        return false;

        if (words.n)
                judge_call(judge, words.p, words.n);

        return false;
}

static bool is_number(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_digit(text.p[i]))
                        return false;
        return true;
}

/* "hyperfine 'x' 'y'", "mispipe x y", "pee x y": a shell reads each operand. */
static bool operands_run(struct judge *judge, const struct sh_call *call) {
        const struct sh_arg *arg;
        for (size_t i = 0; (arg = call_operand(call, i)); i++)
                if (!is_number(arg->text))
                        judge_program(judge, call, arg, 1);
        return call_operand(call, 0) != NULL;
}

/* "tmux new-session -d TEXT": the words are joined and read by a shell. */
static bool tmux_runs(struct judge *judge, const struct sh_call *call) {
        static const char *const verbs[] = { "new-session",
                                             "new",
                                             "new-window",
                                             "neww",
                                             "split-window",
                                             "splitw",
                                             "respawn-pane",
                                             "respawnp",
                                             "respawn-window",
                                             "run-shell",
                                             "run",
                                             "if-shell",
                                             "if",
                                             "send-keys",
                                             "send",
                                             "pipe-pane",
                                             "display-popup",
                                             "popup",
                                             NULL };
        static const char *const valued[] = { "-s", "-n", "-t", "-c", "-x", "-y", "-F", "-e", "-l", "-w", "-h", NULL };
        static const char *const before[] = { "-L", "-S", "-f", NULL };
        static const char *const keys[] = { "Enter", "KPEnter", "C-m", "C-j", NULL };
        size_t at = command_behind(call, 1, before), end = call->n;
        if (at >= call->n || !word_in(call->p[at].text, verbs))
                return false;

        at = command_behind(call, at + 1, valued);
        while (end > at + 1 && word_in(call->p[end - 1].text, keys))
                end--; /* send-keys: what is pressed behind the text */
        if (at < end)
                judge_program(judge, call, call->p + at, end - at);

        judge_decide(judge, SH_SANDBOXED, NULL);
        return true;
}

static const struct {
        const char *const *names;
        bool (*look)(struct judge *j, const struct sh_call *c);
} runners[] = {
        { WORDS("uv", "poetry", "pipenv", "bundle", "mise", "hatch", "pdm", "rye", "asdf", "rbenv", "pyenv", "conda",
                "mamba", "micromamba", "volta", "fnm", "pixi"),
          verb_runs },
        { WORDS("npm", "pnpm", "yarn", "bun"), package_runs },
        { WORDS("perf"), perf_runs },
        { WORDS("ip"), netns_runs },
        { WORDS("cmake"), cmake_runs },
        { WORDS("guix", "op", "nix", "aws-vault", "doppler", "chamber", "infisical", "kubectl"), dashes_run },
        { WORDS("gnome-terminal", "xterm", "uxterm", "rxvt", "urxvt", "konsole", "alacritty", "kitty", "foot",
                "xfce4-terminal", "mate-terminal", "lxterminal", "terminator", "x-terminal-emulator"),
          terminal_runs },
        { WORDS("capsh"), capsh_runs },
        { WORDS("start-stop-daemon"), daemon_runs },
        { WORDS("hyperfine", "mispipe", "pee"), operands_run },
        { WORDS("tmux"), tmux_runs },
};

bool runner(struct judge *judge, const struct sh_call *call) {
        for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++)
                if (word_in(call->name, runners[i].names))
                        return runners[i].look(judge, call);
        return false;
}
