/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_help.h"

#include "base/cleanup.h"

enum { WIDTH = 80, VERB_COLUMN = 12, LINE_MAX_BYTES = 4096, HELP_MAX_BYTES = 65536 };

void help_wrap(FILE *out, const char *text, int at, int column) {
        struct str rest = str_of(text), word;
        bool first = true;

        while (str_split(&rest, ' ', &word)) {
                if (word.n == 0)
                        continue;

                /* A name that ends where the text begins has no room for a space: it stands alone too. */
                bool full = first ? at > 0 && at >= column : at > column && at + 1 + (int)word.n > WIDTH;
                if (full) {
                        fputc('\n', out);
                        at = 0;
                }

                if (at < column) {
                        fprintf(out, "%*s", column - at, "");
                        at = column;
                } else if (at > column) {
                        fputc(' ', out);
                        at++;
                }

                fprintf(out, "%.*s", STR_FMT(word));
                at += (int)word.n;
                first = false;
        }

        fputc('\n', out);
}

/* Paragraphs are separated by empty lines; lines that begin with a space are kept as they are. */
static void put_paragraphs(FILE *out, struct str text) {
        struct str rest = text, line;
        cleanup(buf_done) struct buf paragraph = BUF(LINE_MAX_BYTES);

        for (;;) {
                bool more = str_split(&rest, '\n', &line);
                bool kept = more && line.n > 0 && line.p[0] == ' ';
                if ((!more || line.n == 0 || kept) && paragraph.n > 0) {
                        help_wrap(out, buf_text(&paragraph), 0, 0);
                        buf_clear(&paragraph);
                }

                if (!more)
                        break;

                if (kept)
                        fprintf(out, "%.*s\n", STR_FMT(line));
                else if (line.n == 0)
                        fputc('\n', out);
                else {
                        buf_add(&paragraph, paragraph.n ? " " : "");
                        buf_append(&paragraph, line);
                }
        }
}

static void put_verbs(FILE *out, const struct verb *const *list, enum verb_group group, const char *title) {
        bool any = false;

        for (; *list; list++) {
                const struct verb *verb = *list;
                if ((verb->flags & VERB_HIDDEN) || (title && verb->group != group))
                        continue;
                if (title && !any)
                        fprintf(out, "\n%s\n", title);

                any = true;
                int at = fprintf(out, "  %s", verb->name);
                help_wrap(out, verb->help, at, VERB_COLUMN);
        }
}

int help_overview(FILE *out) {
        fputs("bailey runs a program so that it touches only what a policy grants, and records\n"
              "every attempt.\n\n"
              "Usage: bailey VERB [OPTIONS] [WORDS]\n",
              out);
        for (unsigned g = 0; g < VERB_GROUPS; g++)
                put_verbs(out, verbs, (enum verb_group)g, verb_group_titles[g]);

        fputs("\n\"bailey help VERB\" says more about one. Manual: man bailey.\n", out);
        return EXIT_OK;
}

int help_verb(const struct verb *parent, const struct verb *verb, FILE *out) {
        fprintf(out, "Usage: bailey %s %s\n\n", verb_spelled(parent, verb).text, text_or(verb->synopsis, ""));
        cleanup(buf_done) struct buf about = BUF(HELP_MAX_BYTES);
        if (verb_about(verb, &about) < 0)
                return EXIT_SYSTEM;

        put_paragraphs(out, buf_str(&about));

        if (verb->subs) {
                fputc('\n', out);
                put_verbs(out, verb->subs, verb->group, NULL);
        }

        const struct option_table *tables[VERB_TABLES_MAX + 1];
        size_t n = verb_tables(verb, tables);
        cleanup(buf_done) struct buf options = BUF(HELP_MAX_BYTES);
        if (option_help(&options, tables, n, WIDTH) < 0)
                return EXIT_SYSTEM;

        fprintf(out, "\n%.*s", STR_FMT(buf_str(&options)));
        return EXIT_OK;
}

static int help_exit_codes(FILE *out) {
        for (size_t i = 0; i < n_exit_rows; i++) {
                int at = fprintf(out, "  %s", exit_rows[i].codes);
                help_wrap(out, exit_rows[i].meaning, at, VERB_COLUMN + 2);
        }
        return EXIT_OK;
}

static int help_run(const struct call *call, struct err *err) {
        if (call->argc == 0)
                return help_overview(stdout);
        if (strcmp(call->argv[0], "exit-codes") == 0)
                return help_exit_codes(stdout);

        const struct verb *parent = NULL, *verb = verb_find(NULL, call->argv[0]);

        if (verb && call->argc > 1) {
                parent = verb;
                verb = parent->subs ? verb_find(parent->subs, call->argv[1]) : NULL;
        }

        if (verb)
                return help_verb(parent, verb, stdout);

        err_set(err, EINVAL, "there is no verb %s%s", show(str_of(call->argv[parent != NULL])).text,
                verb_suggest(parent, call->argv[parent != NULL]).text);
        return EXIT_USAGE;
}

const struct verb verb_help = {
        .name = "help",
        .group = GROUP_HELP,
        .flags = VERB_NAMES,
        .synopsis = "[VERB [SUBVERB] | exit-codes]",
        .help = "explain a verb, or list the exit codes",
        .max_words = 2,
        .run = help_run,
};
