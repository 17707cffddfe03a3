/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in the words of programs that no table knows: launchers with the command behind their own words (watchexec
 * rm -rf ~), options with a command as their value (nodemon --exec 'rm -rf ~'), strings in the code of any language.
 * Whether the program runs them cannot be known. A person is asked where one of them, as a command, would be forbidden;
 * programs whose words are text for people or for a search are left alone.
 */
#include "shell/call.h"

enum { HIDDEN_TEXT_MAX = 4096, HIDDEN_LOOKS_MAX = 24 };

/* Their words are read by people, or are looked for. */
static const char *const text_programs[] = {
        "echo",     "printf",     "grep",  "egrep",  "fgrep",       "rg",      "ag",     "ack",        "git",
        "gh",       "glab",       "hub",   "jq",     "yq",          "sed",     "gsed",   "awk",        "gawk",
        "mawk",     "test",       "[",     "[[",     "expr",        "curl",    "wget",   "http",       "xh",
        "logger",   "wall",       "write", "mail",   "notify-send", "cowsay",  "say",    "figlet",     "man",
        "info",     "which",      "type",  "whatis", "bat",         "cat",     "tee",    "read",       "export",
        "declare",  "typeset",    "local", "alias",  "trap",        "bailey",  "claude", "codex",      "gemini",
        "opencode", "shellcheck", "shfmt", "svn",    "hg",          "jj",      "zgrep",  "pgrep",      "fzf",
        "true",     "false",      ":",     "docker", "podman",      "apropos", "tldr",   "commitlint", "cz",
        "task",     "todo",       NULL
};

/* What deletes, overwrites or runs text. The words from one of them on may be a command. */
static const char *const telling_names[] = { "rm",   "shred",  "dd",      "wipefs", "mkfs",  "find",  "sh",
                                             "bash", "dash",   "zsh",     "ksh",    "fish",  "sudo",  "doas",
                                             "env",  "rimraf", "unlink",  "mv",     "chmod", "chown", "nc",
                                             "curl", "wget",   "busybox", NULL };

/* Judged by itself, with nothing but the answer left behind. */
static bool is_forbidden(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n) {
        struct judge probe = *judge;

        probe.arena = (struct arena){ .max = JUDGE_MEMORY_MAX };
        probe.decision = SH_ALLOW;
        probe.rule = NULL;
        probe.watch = NULL;
        probe.permitted = false;
        probe.redirects = NULL;
        probe.functions = NULL;
        probe.hidden = true;

        if (n == 1)
                judge_program(&probe, call, args, 1);
        else
                judge_call(&probe, args, n);

        judge->steps = probe.steps;
        arena_done(&probe.arena);

        return probe.decision == SH_FORBIDDEN;
}

/* "|cmd", "!cmd" and "KEY=cmd" have the command behind a mark. */
static struct str text_behind_mark(struct str text) {
        text = str_trim(text);
        while (text.n > 0 && strchr("|!:+@", text.p[0]))
                text = str_trim(str_skip(text, 1));
        while (text.n > 0 && (text.p[text.n - 1] == '|' || text.p[text.n - 1] == ';'))
                text = str_trim(str_first(text, text.n - 1));

        return text;
}

static bool text_is_forbidden(struct judge *judge, const struct sh_call *call, struct str text, unsigned *left) {
        text = text_behind_mark(text);
        if (str_find(text, ' ') <= 0 || text.n > HIDDEN_TEXT_MAX || *left == 0)
                return false;

        (*left)--;
        struct sh_arg arg = judge_arg(judge, text);
        return !arg.unknown && is_forbidden(judge, call, &arg, 1);
}

/* Whole, behind an equals sign, and each string in it. */
static bool word_is_forbidden(struct judge *judge, const struct sh_call *call, struct str text, unsigned *left) {
        ptrdiff_t equals = str_find(text, '=');

        if (text_is_forbidden(judge, call, text, left) ||
            (equals > 0 && text_is_forbidden(judge, call, str_skip(text, (size_t)equals + 1), left)))
                return true;

        for (size_t i = 0; i < text.n; i++) {
                ptrdiff_t end =
                    strchr("\"'`", text.p[i]) && text.p[i] ? str_find(str_skip(text, i + 1), text.p[i]) : -1;
                if (end < 0)
                        continue;
                if (text_is_forbidden(judge, call, str_n(text.p + i + 1, (size_t)end), left))
                        return true;

                i += (size_t)end + 1;
        }

        return false;
}

static bool is_telling(struct sh_arg arg) {
        ptrdiff_t slash = str_rfind(arg.text, '/');
        struct str name = str_skip(arg.text, (size_t)(slash + 1));

        return word_in(name, telling_names) || str_starts(name, STR("mkfs."));
}

/* What it is given to read, if that stands in the command itself. People write here-documents to be read. */
static bool input_is_forbidden(struct judge *judge, const struct sh_call *call, unsigned *left) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_STRING &&
                    word_is_forbidden(judge, call, sh_word_to_arg(judge, redirect->target).text, left))
                        return true;
        return false;
}

/* A script by its name. */
static bool names_script(struct str path) {
        static const char *const ends[] = { ".sh", ".bash", ".zsh", ".py", ".pl", ".rb", ".js", ".mjs", ".php" };

        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
                if (str_ends(path, str_of(ends[i])))
                        return true;

        return false;
}

static bool writes_script(struct judge *judge, const struct sh_call *call) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if ((redirect->kind == SH_WRITE || redirect->kind == SH_APPEND) &&
                    names_script(sh_word_to_arg(judge, redirect->target).text))
                        return true;
        return false;
}

/* echo 'rm -rf /' > x.sh: what is said becomes a script, whoever runs it. Here-documents are there to be read. */
static void judge_written(struct judge *judge, const struct sh_call *call) {
        static const char *const speakers[] = { "echo", "printf", "cat", "tee", NULL };
        unsigned left = HIDDEN_LOOKS_MAX;
        bool found = false;

        if (!word_in(call->name, speakers) || !writes_script(judge, call))
                return;

        for (size_t i = 1; i < call->n && !found; i++)
                found = text_is_forbidden(judge, call, call->p[i].text, &left);

        found = found || input_is_forbidden(judge, call, &left);

        if (found)
                judge_find(judge, FINDING_HIDDEN);
}

/* A launcher that was understood (sudo, env, strace): what it runs has been judged. A pipe in a word is one more. */
static void judge_pipes(struct judge *judge, const struct sh_call *call) {
        unsigned left = HIDDEN_LOOKS_MAX;

        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n > 1 && strchr("|!", call->p[i].text.p[0]) &&
                    text_is_forbidden(judge, call, call->p[i].text, &left)) {
                        judge_find(judge, FINDING_HIDDEN);
                        return;
                }
}

void judge_hidden(struct judge *judge, const struct sh_call *call, bool understood) {
        unsigned left = HIDDEN_LOOKS_MAX;

        if (understood) {
                if (!judge->hidden && judge->decision != SH_FORBIDDEN)
                        judge_pipes(judge, call);
                return;
        }

        if (!judge->hidden && judge->decision != SH_FORBIDDEN)
                judge_written(judge, call);

        if (judge->hidden || judge->decision == SH_FORBIDDEN || word_in(call->name, text_programs))
                return;

        for (size_t i = 1; i < call->n; i++) {
                bool behind = i + 1 < call->n && is_telling(call->p[i]) && left > 0;

                left -= behind;

                if ((behind && is_forbidden(judge, call, call->p + i, call->n - i)) ||
                    word_is_forbidden(judge, call, call->p[i].text, &left)) {
                        judge_find(judge, FINDING_HIDDEN);
                        return;
                }
        }

        if (input_is_forbidden(judge, call, &left))
                judge_find(judge, FINDING_HIDDEN);
}
