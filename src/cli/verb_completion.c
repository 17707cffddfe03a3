/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions for bash, zsh and fish, written from the verb and option tables: `make install` puts them where the
 * shells look. What they offer: verbs, sub-verbs, flags, choices, names of guests, files where a path is wanted, and a
 * command's own completions after the verbs that run one. Texts in the tables are ours; quoting is still exact.
 */
#include "base/cleanup.h"
#include "cli/verb.h"
#include "verbs/bridges.h"

#include <stdio.h>

struct flag {
        const struct option *option;
        char text[64]; /* as typed: "--policy", or "--no-x" for what is on by default */
        bool value;    /* takes one */
};

/* False for rows without a flag. */
static bool flag_of(const struct option *option, struct flag *ret) {
        cleanup(buf_done) struct buf usage = BUF(256);
        if (!option->flag || option_usage(&usage, option) < 0)
                return false;

        struct str rest = buf_str(&usage), word, last = { 0 };
        while (str_split(&rest, ' ', &word))
                if (str_starts(word, STR("--")))
                        last = word;

        *ret = (struct flag){ .option = option, .value = option->type != OPTION_FLAG };
        (void)snprintf(ret->text, sizeof ret->text, "%.*s", STR_FMT(last));

        return last.n > 0;
}

static bool wants_files(const struct option *option) {
        return option->type == OPTION_PATH || option->type == OPTION_PATHS;
}

/* Calls `each` for every flag of the verb (NULL: the global ones) with the verb's spelling, "policy check". */
typedef void flag_fn(const char *verb, const struct flag *flag);
static void each_flag(const struct verb *verb, const char *spelling, flag_fn *each) {
        const struct option_table *tables[VERB_TABLES_MAX + 1];
        size_t n = verb_tables(verb, tables);
        for (size_t t = 0; t < n; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        struct flag flag;
                        if (flag_of(&tables[t]->rows[i], &flag))
                                each(spelling, &flag);
                }
}

/* Calls `each` for every verb and sub-verb that is shown. */
typedef void verb_fn(const struct verb *parent, const struct verb *verb, const char *spelling);
static void each_verb(verb_fn *each) {
        for (size_t i = 0; i < n_verbs; i++) {
                const struct verb *verb = verbs[i];
                if (verb->flags & VERB_HIDDEN)
                        continue;

                each(NULL, verb, verb->name);

                for (const struct verb *const *s = verb->subs; s && *s; s++) {
                        char spelling[96];

                        (void)snprintf(spelling, sizeof spelling, "%s %s", verb->name, (*s)->name);
                        if (!((*s)->flags & VERB_HIDDEN))
                                each(verb, *s, spelling);
                }
        }
}

static void put_names(const struct verb *const *list) {
        const char *space = "";
        for (; list && *list; list++)
                if (!((*list)->flags & VERB_HIDDEN)) {
                        printf("%s%s", space, (*list)->name);
                        space = " ";
                }
}

/* Tools that are built in are no choices: a policy can have others. */
static bool names_tools(const struct option *option) {
        return option->flag && strcmp(option->flag, "bridge") == 0 && option->type == OPTION_LIST;
}

static bool names_guests(const struct option *option) {
        return option->flag && strcmp(option->flag, "guest") == 0 && option->type != OPTION_FLAG;
}

static bool has_choices(const struct option *option) {
        return option->choices || names_tools(option);
}

static void put_choices(const struct option *option) {
        const char *name;

        for (const char *const *c = option->choices; c && *c; c++)
                printf("%s%s", c == option->choices ? "" : " ", *c);
        for (size_t i = 0; names_tools(option) && (name = bridges_name(i)); i++)
                printf("%s%s", i ? " " : "", name);
}

/* Text inside single quotes; `also` lists characters that get a backslash. */
static void put_quoted(const char *text, const char *also, const char *quote) {
        for (; *text; text++) {
                if (*text == '\'')
                        fputs(quote, stdout);
                else if (strchr(also, *text))
                        printf("\\%c", *text);
                else
                        putchar(*text);
        }
}

/* bash */

static void bash_flag(const char *verb, const struct flag *flag) {
        (void)verb;
        printf(" %s", flag->text);
}

/* What stands behind the options: a command, which completes as one, or the verb's own words. */
static const char *words_kind(const struct verb *verb) {
        if (verb->flags & VERB_GUEST)
                return verb->flags & VERB_COMMAND ? "guest-command" : "guest";
        if (verb->flags & VERB_COMMAND)
                return "command";
        if (verb->max_words != 0)
                return "words";

        return "";
}

static void bash_verb(const struct verb *parent, const struct verb *verb, const char *spelling) {
        (void)parent;
        printf("        '%s') subs='", spelling);
        put_names(verb->flags & VERB_NAMES ? verbs : verb->subs);
        fputs("' flags='", stdout);
        each_flag(verb, spelling, bash_flag);
        printf("' takes='%s' ;;\n", words_kind(verb));
}

static const char *value_kind(const struct option *option) {
        if (wants_files(option))
                return "files";
        if (names_guests(option))
                return "guests";
        if (has_choices(option))
                return "words";

        return "text";
}

static void bash_value(const char *verb, const struct flag *flag) {
        if (!flag->value)
                return;

        printf("        '%s %s') kind=%s choices='", verb, flag->text, value_kind(flag->option));
        put_choices(flag->option);
        fputs("' ;;\n", stdout);
}

static void bash_verb_values(const struct verb *parent, const struct verb *verb, const char *spelling) {
        (void)parent;
        each_flag(verb, spelling, bash_value);
}

/* What does not depend on the tables. */
static const char bash_function[] = "_bailey() {\n"
                                    "        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                                    "        local verb='' guest='' i=1 subs flags takes kind choices word\n"
                                    "        COMPREPLY=()\n"
                                    "        _bailey_verb ''\n"
                                    "        for ((; i < COMP_CWORD; i++)); do\n"
                                    "                word=${COMP_WORDS[i]}\n"
                                    "                [[ $word == g && ! $verb ]] && word=guest\n"
                                    "                if [[ $word == -- ]]; then\n"
                                    "                        ((i++))\n"
                                    "                        break\n"
                                    "                elif [[ $word == -* ]]; then\n"
                                    "                        _bailey_value \"$verb\" \"$word\"\n"
                                    "                        if [[ $kind ]]; then\n"
                                    "                                ((i++)) # its value\n"
                                    "                                [[ ${COMP_WORDS[i]} == = ]] && ((i++))\n"
                                    "                        fi\n"
                                    "                elif [[ $takes == command ]]; then\n"
                                    "                        break\n"
                                    "                elif [[ $takes == guest* && ! $guest ]]; then\n"
                                    "                        guest=$word\n"
                                    "                        takes=${takes#guest}\n"
                                    "                        takes=${takes#-}\n"
                                    "                        takes=${takes:-words}\n"
                                    "                elif [[ \" $subs \" == *\" $word \"* ]]; then\n"
                                    "                        verb=${verb:+$verb }$word\n"
                                    "                        _bailey_verb \"$verb\"\n"
                                    "                fi\n"
                                    "        done\n"
                                    "        # --flag=value comes as three words\n"
                                    "        if [[ $cur == = ]]; then\n"
                                    "                cur=''\n"
                                    "        elif [[ $prev == = ]]; then\n"
                                    "                prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                                    "        fi\n"
                                    "        _bailey_value \"$verb\" \"$prev\"\n"
                                    "        if [[ $takes == command && ! $kind && ($cur != -* || $i -lt $COMP_CWORD "
                                    "|| ${COMP_WORDS[i-1]} == --) ]]; then\n"
                                    "                if declare -F _command_offset >/dev/null; then\n"
                                    "                        _command_offset \"$i\"\n"
                                    "                elif [[ $i -eq $COMP_CWORD ]]; then\n"
                                    "                        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
                                    "                else\n"
                                    "                        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                    "                fi\n"
                                    "        elif [[ $kind == guests || (! $kind && $takes == guest* && $cur != -*) "
                                    "]]; then\n"
                                    "                choices=$(\"${COMP_WORDS[0]}\" guest ls --names 2>/dev/null)\n"
                                    "                mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$cur\")\n"
                                    "        elif [[ $kind == words ]]; then\n"
                                    "                mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$cur\")\n"
                                    "        elif [[ ! $kind && $cur == -* ]]; then\n"
                                    "                mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$cur\")\n"
                                    "        elif [[ ! $kind && $subs ]]; then\n"
                                    "                mapfile -t COMPREPLY < <(compgen -W \"$subs\" -- \"$cur\")\n"
                                    "        elif [[ $kind == files || $takes == words ]]; then\n"
                                    "                mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                    "        fi\n"
                                    "}\n"
                                    "complete -o filenames -F _bailey bailey\n";

static void put_bash(void) {
        fputs("# bash completion for bailey, made from its tables by \"bailey completion bash\"\n\n"
              "_bailey_verb() { # sets subs, flags, takes for a verb\n"
              "        case $1 in\n"
              "        '') subs='",
              stdout);
        put_names(verbs);
        fputs("' flags='", stdout);
        each_flag(NULL, "", bash_flag);
        fputs(" --version' takes='' ;;\n", stdout);

        each_verb(bash_verb);
        fputs("        *) subs='' flags='' takes='' ;;\n"
              "        esac\n"
              "}\n\n"
              "_bailey_value() { # sets kind and choices for a verb's flag; kind is empty for flags without a value\n"
              "        case \"$1 $2\" in\n",
              stdout);
        each_flag(NULL, "", bash_value);
        each_verb(bash_verb_values);

        fputs("        *) kind='' choices='' ;;\n"
              "        esac\n"
              "}\n\n",
              stdout);
        fputs(bash_function, stdout);
}

/* zsh */

static void zsh_flag(const char *verb, const struct flag *flag) {
        (void)verb;
        const char *star = option_repeats(flag->option) ? "*" : "";
        printf(" \\\n                '%s%s%s[", star, flag->text, flag->value ? "=" : ""); /* with a space or with = */
        put_quoted(flag->option->help, "[]:", "'\\''");
        putchar(']');

        if (flag->value) {
                printf(":%s:", text_or(flag->option->metavar, "value"));

                if (has_choices(flag->option)) {
                        putchar('(');
                        put_choices(flag->option);
                        putchar(')');
                } else if (wants_files(flag->option))
                        fputs("_files", stdout);
                else if (names_guests(flag->option))
                        fputs("_bailey_names_of_guests", stdout);
        }

        putchar('\'');
}

static void zsh_function_name(const char *spelling) {
        fputs("_bailey", stdout);
        for (printf("%s", *spelling ? "_" : ""); *spelling; spelling++)
                putchar(*spelling == ' ' || *spelling == '-' ? '_' : *spelling);
}

/* A function that completes a verb's flags and then its sub-verbs, its command, or files. */
static void zsh_function(const struct verb *verb, const struct verb *const *subs, const char *spelling) {
        zsh_function_name(spelling);
        fputs(
            "() {\n        local context state state_descr line\n        typeset -A opt_args\n        _arguments -C -s",
            stdout);
        each_flag(verb, spelling, zsh_flag);

        if (!subs) {
                if (verb->flags & VERB_GUEST)
                        fputs(" \\\n                '1:guest:_bailey_names_of_guests'", stdout);
                if (verb->flags & VERB_COMMAND)
                        fputs(" \\\n                '*::command:_normal'", stdout);
                else if (verb->flags & VERB_NAMES) {
                        fputs(" \\\n                '1:verb:(", stdout);
                        put_names(verbs);
                        fputs(")'", stdout);
                } else if (verb->max_words != 0)
                        fputs(" \\\n                '*:word:_files'", stdout);

                fputs("\n}\n\n", stdout);
                return;
        }

        fputs(" \\\n                '1:verb:->verb' '*::word:->words'\n"
              "        case $state in\n"
              "        verb)\n"
              "                local -a verbs=(",
              stdout);

        for (const struct verb *const *s = subs; *s; s++)
                if (!((*s)->flags & VERB_HIDDEN)) {
                        printf("\n                        '%s:", (*s)->name);
                        put_quoted((*s)->help, ":", "'\\''");
                        putchar('\'');
                }

        fputs(")\n                _describe verb verbs ;;\n        words)\n                case $words[1] in\n",
              stdout);

        for (const struct verb *const *s = subs; *s; s++)
                if (!((*s)->flags & VERB_HIDDEN)) {
                        char below[96];

                        (void)snprintf(below, sizeof below, "%s%s%s", spelling, *spelling ? " " : "", (*s)->name);
                        printf("                %s) ", (*s)->name);
                        zsh_function_name(below);
                        fputs(" ;;\n", stdout);
                }

        fputs("                esac ;;\n        esac\n}\n\n", stdout);
}

static void zsh_verb(const struct verb *parent, const struct verb *verb, const char *spelling) {
        (void)parent;
        zsh_function(verb, verb->subs, spelling);
}

static void put_zsh(void) {
        fputs("#compdef bailey\n# zsh completion for bailey, made from its tables by \"bailey completion zsh\"\n\n",
              stdout);
        fputs("_bailey_names_of_guests() {\n"
              "        local -a names=(${(f)\"$(bailey guest ls --names 2>/dev/null)\"})\n"
              "        compadd -a names\n"
              "}\n\n",
              stdout);
        each_verb(zsh_verb);
        zsh_function(NULL, verbs, "");
        fputs("_bailey \"$@\"\n", stdout);
}

/* fish */

/* Conditions: which verbs were seen. */
static void fish_condition(const struct verb *parent, const struct verb *verb) {
        fputs("complete -c bailey -n '", stdout);
        if (parent)
                printf("__fish_seen_subcommand_from %s; and ", parent->name);
        printf("__fish_seen_subcommand_from %s'", verb->name);
}

static const struct verb *fish_parent, *fish_current; /* of the flags being written */

static void fish_flag(const char *spelling, const struct flag *flag) {
        (void)spelling;

        if (fish_current)
                fish_condition(fish_parent, fish_current);
        else
                fputs("complete -c bailey -n __fish_use_subcommand", stdout);

        printf(" -l %s", flag->text + 2);
        if (flag->option->letter)
                printf(" -s %c", flag->option->letter);

        if (has_choices(flag->option)) {
                fputs(" -x -a '", stdout);
                put_choices(flag->option);
                putchar('\'');
        } else if (names_guests(flag->option)) {
                fputs(" -x -a '(__bailey_guests)'", stdout);
        } else if (flag->value)
                fputs(wants_files(flag->option) ? " -r -F" : " -x", stdout);

        fputs(" -d '", stdout);
        put_quoted(flag->option->help, "\\", "\\'");
        fputs("'\n", stdout);
}

/* The name of a guest first, and behind it what the verb takes else. */
static void fish_guest_words(const struct verb *parent, const struct verb *verb) {
        fish_condition(parent, verb);
        fputs(" -a '(__bailey_guests)'\n", stdout);

        if (!(verb->flags & VERB_COMMAND) && verb->max_words == 1)
                return;

        printf(
            "complete -c bailey -n '__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from (__bailey_guests)'",
            verb->name);
        fputs(verb->flags & VERB_COMMAND ? " -x -a '(__fish_complete_subcommand --fcs-skip=4)'\n" : " -F\n", stdout);
}

static void fish_verb(const struct verb *parent, const struct verb *verb, const char *spelling) {
        if (!parent)
                fputs("complete -c bailey -n __fish_use_subcommand", stdout);
        else {
                printf("complete -c bailey -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ",
                       parent->name);
                put_names(parent->subs);
                putchar('\'');
        }

        printf(" -a %s -d '", verb->name);
        put_quoted(verb->help, "\\", "\\'");
        fputs("'\n", stdout);

        if (verb->flags & VERB_GUEST) {
                fish_guest_words(parent, verb);
        } else if (verb->flags & VERB_COMMAND) {
                fish_condition(parent, verb);
                fputs(" -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n", stdout);
        } else if (verb->flags & VERB_NAMES) {
                fish_condition(parent, verb);
                fputs(" -a '", stdout);
                put_names(verbs);
                fputs("'\n", stdout);
        } else if (!verb->subs && verb->max_words != 0) {
                fish_condition(parent, verb);
                fputs(" -F\n", stdout);
        }

        fish_parent = parent;
        fish_current = verb;
        each_flag(verb, spelling, fish_flag);
}

static void put_fish(void) {
        fputs("# fish completion for bailey, made from its tables by \"bailey completion fish\"\n"
              "function __bailey_guests\n"
              "    bailey guest ls --names 2>/dev/null\n"
              "end\n"
              "complete -c bailey -f\n",
              stdout);
        fish_current = NULL;
        each_flag(NULL, "", fish_flag);
        each_verb(fish_verb);
}

static int run_completion(const struct call *call, struct err *err) {
        static const struct {
                const char *shell;
                void (*put)(void);
        } shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };

        for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
                if (strcmp(call->argv[0], shells[i].shell) == 0) {
                        shells[i].put();
                        return EXIT_OK;
                }

        err_set(err, EINVAL, "no completions for %s; there are some for bash, zsh and fish",
                show(str_of(call->argv[0])).text);
        return EXIT_USAGE;
}

const struct verb verb_completion = {
        .name = "completion",
        .group = GROUP_HELP,
        .flags = VERB_HIDDEN,
        .synopsis = "bash|zsh|fish",
        .help = "print the completions for a shell",
        .min_words = 1,
        .max_words = 1,
        .run = run_completion,
};
