/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about commands: by their first words, as Bailey has them. */
#include "base/cleanup.h"
#include "conf/suggest.h"
#include "import/import_source.h"
#include "policy/check.h"

#include <errno.h>

enum { WORDS_MAX = 32, COMMANDS_MAX = 4096 };

static void command_done(struct import_command *command) {
        import_words_done(&command->argv);
        free(command->reason);
        free(command->place);
        free(command->said);
}

int import_command_argv(struct import_source *source, const struct node *node, const char *decision,
                        const struct str *argv, size_t n, struct str reason, struct err *err) {
        struct import_model *model = source->model;
        struct import_command command = { .decision = decision,
                                          .place = node_origin(source->document, node),
                                          .said = import_said(node),
                                          .reason =
                                              reason.n && check_reason(reason, NULL) == 0 ? str_dup(reason) : NULL };
        int r = command.place && command.said ? 0 : err_memory(err);

        for (size_t i = 0; r == 0 && i < n; i++) {
                struct err why = { 0 };

                r = check_command_word(argv[i], &why);
                if (r < 0)
                        node_error(source->document, node, err, "%s", err_text(&why));
                else
                        r = import_words_add(&command.argv, argv[i], err);
        }

        if (r == 0 && model->commands.n >= COMMANDS_MAX)
                r = node_error(source->document, node, err, "more than %d rules about commands", COMMANDS_MAX);
        if (r == 0 && vec_push(&model->commands, command) < 0)
                r = err_memory(err);
        if (r < 0)
                command_done(&command);

        return r;
}

/* Quotes, expansions and operators would have to be understood as a shell does. */
static bool is_plain_word(struct str word) {
        for (size_t i = 0; i < word.n; i++)
                if ((unsigned char)word.p[i] <= 0x20 || strchr("\"'`$&|;<>()\\*?[{}!#~", word.p[i]))
                        return false;
        return word.n > 0;
}

int import_command_words(struct import_source *source, const struct node *node, struct str text, const char *decision,
                         bool exact, struct str reason, struct err *err) {
        bool grants = strcmp(decision, "allow") == 0;
        struct str words[WORDS_MAX], word, rest = str_trim(text);
        size_t n = 0;

        while (str_split(&rest, ' ', &word)) {
                if (word.n == 0)
                        continue;
                if (n == WORDS_MAX || !is_plain_word(word))
                        return import_say(source, node, !grants, err,
                                          "a rule for commands names the words that they begin with, without quotes, "
                                          "wildcards and operators");

                words[n++] = word;
        }

        if (n == 0)
                return import_say(source, node, !grants, err, "it is about every command; a rule names a program");

        if (grants && exact)
                return import_say(source, node, false, err,
                                  "one command word for word: a rule would allow everything that begins so");

        return import_command_argv(source, node, decision, words, n, reason, err);
}
