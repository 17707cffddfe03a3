/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/call.h"

/* A good part of what judging a command costs: almost all differ in the first byte, and most others in the second. */
bool word_in(struct str word, const char *const *list) {
        if (word.n == 0)
                return false;

        for (const char first = word.p[0]; *list; list++) {
                if ((*list)[0] != first)
                        continue;

                size_t same = 1;
                while (same < word.n && (*list)[same] && (*list)[same] == word.p[same])
                        same++;

                if (same == word.n && !(*list)[same])
                        return true;
        }

        return false;
}

bool word_holds(struct str text, struct str token) {
        for (size_t i = 0; token.n && i + token.n <= text.n; i++)
                if (memcmp(text.p + i, token.p, token.n) == 0)
                        return true;
        return false;
}

bool is_shell(struct str name) {
        static const char *const shells[] = { "sh",   "bash", "dash", "zsh",  "ksh", "ash",    "mksh",  "rbash", "yash",
                                              "posh", "fish", "csh",  "tcsh", "nu",  "elvish", "xonsh", "pwsh",  NULL };
        return word_in(name, shells);
}

bool is_interpreter(struct str name) {
        static const char *const interpreters[] = { "perl", "node", "nodejs",  "ruby",  "php", "lua",
                                                    "deno", "bun",  "Rscript", "tclsh", NULL };
        return str_starts(name, STR("python")) || str_starts(name, STR("pypy")) || word_in(name, interpreters);
}

bool index_runs(struct str text) {
        ptrdiff_t open = str_find(text, '[');
        struct str index = open < 0 ? STR("") : str_skip(text, (size_t)open);
        return str_find(index, '`') >= 0 || word_holds(index, STR("$("));
}

static bool is_system_directory(struct str directory) {
        static const char *const directories[] = { "/bin",           "/sbin",           "/usr/bin", "/usr/sbin",
                                                   "/usr/local/bin", "/usr/local/sbin", NULL };
        return word_in(directory, directories);
}

void call_name(struct sh_call *call) {
        struct str text = call->p[0].text;
        ptrdiff_t slash = str_rfind(text, '/');
        call->name = str_skip(text, (size_t)(slash + 1));
        call->foreign = slash >= 0 && !is_system_directory(str_first(text, (size_t)slash));
}

/* GNU programs take any unambiguous beginning of a long option. */
static bool is_long(struct str arg, struct str option) {
        ptrdiff_t equals = str_find(arg, '=');
        struct str name = equals >= 0 ? str_first(arg, (size_t)equals) : arg;
        return str_eq(name, option) || (name.n >= 5 && name.n < option.n && str_starts(option, name));
}

/* "--force" by its name, "-delete" as a whole, "-f" among the letters of one word. */
static bool word_has_option(struct str word, struct str option) {
        if (option.n <= 2)
                return word.p[1] != '-' && memchr(word.p + 1, option.p[1], word.n - 1);
        if (option.p[1] == '-')
                return is_long(word, option);

        return str_eq(word, option);
}

bool call_has_option(const struct sh_call *call, const char *option) {
        struct str wanted = str_of(option);

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (str_is(arg, "--"))
                        return false;
                if (arg.n < 2 || arg.p[0] != '-')
                        continue;

                if (word_has_option(arg, wanted))
                        return true;
        }

        return false;
}

bool call_has_any(const struct sh_call *call, const char *const *options) {
        for (; *options; options++)
                if (call_has_option(call, *options))
                        return true;
        return false;
}

static struct sh_arg value_behind(const struct sh_call *call, size_t i, struct str behind, bool inside) {
        struct sh_arg value = call->p[i];
        value.text = behind;
        if (inside)
                return value;

        if (i + 1 < call->n)
                return call->p[i + 1];

        return (struct sh_arg){ .text = STR("") };
}

bool call_option_value(const struct sh_call *call, size_t i, const struct sh_option *option, struct sh_arg *ret) {
        struct str arg = call->p[i].text;
        if (arg.n < 2 || arg.p[0] != '-')
                return false;

        ptrdiff_t equals = str_find(arg, '=');
        struct str name = equals < 0 ? arg : str_first(arg, (size_t)equals);

        for (const char *const *word = option->words; word && *word; word++)
                if (str_is(name, *word) || ((*word)[1] == '-' && is_long(name, str_of(*word)))) {
                        *ret = value_behind(call, i, str_skip(arg, name.n + 1), equals >= 0);
                        return true;
                }

        if (arg.p[1] == '-' || !option->letters)
                return false;

        size_t end = option->flags & OPTION_ALONE ? 2 : arg.n;
        for (size_t k = 1; k < end; k++)
                if (arg.p[k] && strchr(option->letters, arg.p[k])) {
                        *ret = value_behind(call, i, str_skip(arg, k + 1), k + 1 < arg.n);
                        return true;
                }

        return false;
}

size_t call_options_end(const struct sh_call *call, const struct sh_option *sh_option) {
        struct sh_arg value;

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (str_is(arg, "--"))
                        return i;

                bool option = arg.n > 1 && arg.p[0] == '-';
                if ((sh_option->flags & OPTION_LEADING) && !option)
                        return i;

                if (option && !(sh_option->flags & OPTION_NO_VALUE) && call_option_value(call, i, sh_option, &value) &&
                    i + 1 < call->n && value.text.p == call->p[i + 1].text.p)
                        i++; /* its value */
        }

        return call->n;
}

const struct sh_arg *call_operand(const struct sh_call *call, size_t i) {
        bool all = false;

        for (size_t k = 1; k < call->n; k++) {
                struct str arg = call->p[k].text;
                if (!all && str_is(arg, "--"))
                        all = true;
                else if ((all || arg.n == 0 || arg.p[0] != '-' || arg.n == 1) && i-- == 0)
                        return &call->p[k];
        }

        return NULL;
}

bool call_has_word(const struct sh_call *call, const char *word) {
        const struct str wanted = str_of(word);
        for (size_t i = 1; i < call->n; i++)
                if (str_eq(call->p[i].text, wanted))
                        return true;
        return false;
}

size_t call_subcommand_index(const struct sh_call *call) {
        static const char *const valued[] = {
                "-C",       "-c",    "--git-dir", "--work-tree", "--namespace",     "--config-env",
                "--prefix", "--cwd", "--dir",     "--filter",    "--manifest-path", "-f",
                "-w",       "-o",    "-t",        NULL
        };

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (word_in(arg, valued))
                        i++;
                else if (arg.n && arg.p[0] != '-' && arg.p[0] != '+')
                        return i;
        }

        return 0;
}

struct str call_subcommand(const struct sh_call *call) {
        size_t i = call_subcommand_index(call);
        return i && !call->p[i].unknown ? call->p[i].text : STR("");
}
