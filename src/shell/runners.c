/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More programs that start others, each with a way of its own to say what: a verb and the words behind it, everything
 * behind a mark, operands that a shell reads. Those that fit a row of wrappers.c are there.
 */
#include "shell/call.h"

#include <stdio.h>

static bool is_option(struct str arg) {
        return arg.n > 1 && arg.p[0] == '-';
}

/* Where the command begins behind a verb: its options are skipped, those of the list with their value. */
static size_t command_behind(const struct sh_call *c, size_t at, const char *const *valued) {
        while (at < c->n && is_option(c->p[at].text)) {
                bool last = str_is(c->p[at].text, "--");
                at += word_in(c->p[at].text, valued) ? 2 : 1;
                if (last)
                        break;
        }
        return at < c->n ? at : c->n;
}

static void judge_rest(struct judge *j, const struct sh_call *c, size_t at) {
        if (at < c->n)
                judge_call(j, c->p + at, c->n - at);
}

/* "uv run x", "poetry run x", "bundle exec x", "conda run -n y x": the words behind. */
static bool verb_runs(struct judge *j, const struct sh_call *c) {
        static const char *const verbs[] = { "run", "exec", NULL };
        static const char *const valued[] = { "-n",          "--name",    "-p",         "--prefix", "--cwd",
                                              "--with",      "--python",  "--env-file", "--extra",  "--group",
                                              "--directory", "--project", "--package",  NULL };
        const struct sh_arg *verb = call_operand(c, 0);
        if (!verb || !word_in(verb->text, verbs))
                return false;
        size_t at = command_behind(c, (size_t)(verb - c->p) + 1, valued);
        judge_rest(j, c, at);
        return at < c->n;
}

/* "npm exec -- x", "npm exec -c TEXT", "pnpm dlx x", "bun x y": perhaps fetched first, so it is never plain. */
static bool package_runs(struct judge *j, const struct sh_call *c) {
        static const char *const verbs[] = { "exec", "x", "dlx", NULL };
        static const char *const valued[] = { "-p", "--package", "-w", "--workspace", "-C", "--dir", "--filter", NULL };
        const struct sh_option text = { .letters = "c", .words = WORDS("--call", "--shell-mode") };
        const struct sh_arg *verb = call_operand(c, 0);
        struct sh_arg value;
        if (!verb || !word_in(verb->text, verbs))
                return false;
        size_t from = (size_t)(verb - c->p) + 1, at = command_behind(c, from, valued);
        judge_decide(j, SH_SANDBOXED, NULL);
        for (size_t i = from; i < at; i++)
                if (call_option_value(c, i, &text, &value)) {
                        judge_program(j, c, &value, 1);
                        return true;
                }
        judge_rest(j, c, at);
        return true;
}

/* "perf stat x", "perf record -g -- x" */
static bool perf_runs(struct judge *j, const struct sh_call *c) {
        static const char *const verbs[] = { "stat", "record", "trace", "ftrace", NULL };
        static const char *const valued[] = { "-e", "-F", "-o", "-C", "-r", "-I", "-c", "-D", "-m", NULL };
        const struct sh_arg *verb = call_operand(c, 0);
        if (verb && word_in(verb->text, verbs))
                judge_rest(j, c, command_behind(c, (size_t)(verb - c->p) + 1, valued));
        return false;
}

/* "ip netns exec NAME x" */
static bool netns_runs(struct judge *j, const struct sh_call *c) {
        for (size_t i = 1; i + 3 < c->n; i++)
                if (str_is(c->p[i].text, "netns") && str_is(c->p[i + 1].text, "exec"))
                        judge_rest(j, c, i + 3);
        return false;
}

/* "cmake -E rm -rf x", "cmake -E env A=1 x": cmake's own tools have the names and the meaning of the system's. */
static bool cmake_runs(struct judge *j, const struct sh_call *c) {
        if (c->n > 2 && str_is(c->p[1].text, "-E"))
                judge_rest(j, c, 2);
        return false;
}

/* Everything behind a mark is a command; a single word is text for a shell. */
static void behind_mark(struct judge *j, const struct sh_call *c, const char *const *marks) {
        for (size_t i = 1; i + 1 < c->n; i++) {
                if (!word_in(c->p[i].text, marks))
                        continue;
                if (i + 2 == c->n)
                        judge_program(j, c, c->p + i + 1, 1);
                else
                        judge_rest(j, c, i + 1);
                return;
        }
}

static bool dashes_run(struct judge *j, const struct sh_call *c) {
        behind_mark(j, c, WORDS("--"));
        return false;
}

static bool terminal_runs(struct judge *j, const struct sh_call *c) {
        behind_mark(j, c, WORDS("-e", "-x", "--", "--command", "--execute"));
        return false;
}

/* "capsh [options] -- ARGS": a shell gets the rest. */
static bool capsh_runs(struct judge *j, const struct sh_call *c) {
        for (size_t i = 1; i < c->n; i++)
                if (str_is(c->p[i].text, "--") || str_is(c->p[i].text, "==")) {
                        struct sh_call shell = *c;
                        shell.p = c->p + i;
                        shell.n = c->n - i;
                        unwrap_shell(j, &shell);
                        break;
                }
        return false;
}

/* "start-stop-daemon --start --exec PROGRAM -- ARGS" */
static bool daemon_runs(struct judge *j, const struct sh_call *c) {
        const struct sh_option program = { .letters = "xa", .words = WORDS("--exec", "--startas") };
        struct sh_args words = { 0 };
        struct sh_arg value;
        size_t i = 1;
        for (; i < c->n && !str_is(c->p[i].text, "--"); i++)
                if (!str_is(c->p[i].text, "--start") && call_option_value(c, i, &program, &value) && words.n == 0 &&
                    sh_args_add(j, &words, value) < 0)
                        return false;
        for (i++; words.n && i < c->n; i++)
                if (sh_args_add(j, &words, c->p[i]) < 0)
                        return false;
        if (words.n)
                judge_call(j, words.p, words.n);
        return false;
}

static bool is_number(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_digit(text.p[i]))
                        return false;
        return true;
}

/* "hyperfine 'x' 'y'", "mispipe x y", "pee x y": a shell reads each operand. */
static bool operands_run(struct judge *j, const struct sh_call *c) {
        const struct sh_arg *a;
        for (size_t i = 0; (a = call_operand(c, i)); i++)
                if (!is_number(a->text))
                        judge_program(j, c, a, 1);
        return call_operand(c, 0) != NULL;
}

/* "tmux new-session -d TEXT": the words are joined and read by a shell. */
static bool tmux_runs(struct judge *j, const struct sh_call *c) {
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
        size_t at = command_behind(c, 1, before);
        if (at >= c->n || !word_in(c->p[at].text, verbs))
                return false;
        at = command_behind(c, at + 1, valued);
        if (at < c->n)
                judge_program(j, c, c->p + at, c->n - at);
        judge_decide(j, SH_SANDBOXED, NULL);
        return true;
}

static const struct {
        const char *const *names;
        bool (*look)(struct judge *j, const struct sh_call *c);
} runners[] = {
        { WORDS("uv", "poetry", "pipenv", "bundle", "mise", "hatch", "pdm", "rye", "asdf", "rbenv", "pyenv", "conda",
                "mamba"),
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

bool runner(struct judge *j, const struct sh_call *c) {
        for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++)
                if (word_in(c->name, runners[i].names))
                        return runners[i].look(j, c);
        return false;
}
