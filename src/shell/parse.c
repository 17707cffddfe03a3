/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell parser. It reads what POSIX and bash call a program and nothing else: no error recovery, no guessing,
 * nothing is ever run or expanded. What it does not understand it refuses, and the classifier takes a refusal as "ask a
 * person".
 *
 * parse.c: lists, pipelines, simple commands, redirections, here-documents. compound.c: if, for, case and the rest.
 * word.c: what a word is made of. Limits: 1 MiB of text, 100 levels of nesting, 64 MiB for the tree.
 */
#include "shell/parser_internal.h"

#include "base/cleanup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct sh_tree {
        struct arena arena;
        struct sh_list *list;
};

int parser_fail(struct parser *parser, const char *what) {
        unsigned line = 1;
        for (const char *c = parser->start; c < parser->p && c < parser->end; c++)
                line += *c == '\n';
        return err_set(parser->e, EINVAL, "line %u: %s", line, what);
}

int parser_enter(struct parser *parser) {
        if (parser->depth >= SH_DEPTH_MAX)
                return err_set(parser->e, E2BIG, "nested deeper than %d levels", SH_DEPTH_MAX);
        parser->depth++;
        return 0;
}

void parser_leave(struct parser *parser) {
        parser->depth--;
}

void *parser_get(struct parser *parser, size_t n) {
        void *memory = arena_get(parser->arena, n);
        if (!memory)
                err_set(parser->e, ENOMEM, "too large to examine");
        return memory;
}

bool is_meta(char c) {
        return c == '\0' || strchr(" \t\n|&;()<>", c) != NULL;
}

bool is_name_start(char c) {
        return c == '_' || (ascii_is_alnum(c) && !ascii_is_digit(c));
}

bool is_name(struct str s) {
        if (s.n == 0 || !is_name_start(s.p[0]))
                return false;
        for (size_t i = 1; i < s.n; i++)
                if (s.p[i] != '_' && !ascii_is_alnum(s.p[i]))
                        return false;
        return true;
}

void skip_blanks(struct parser *parser) {
        for (;;) {
                if (byte_ahead(parser, 0) == ' ' || byte_ahead(parser, 0) == '\t')
                        parser->p++;
                else if (byte_ahead(parser, 0) == '\\' && byte_ahead(parser, 1) == '\n')
                        parser->p += 2;
                else
                        break;
        }

        if (byte_ahead(parser, 0) == '#')
                while (!at_end(parser) && *parser->p != '\n')
                        parser->p++;
}

/* --- here-documents --------------------------------------------------------------------------------------------------
 */

/* The lines up to the delimiter, which start here; the text's end closes it too, as in the shell. */
static int read_here_document(struct parser *parser, const struct here_document *here) {
        const char *body = parser->p;
        size_t body_n = (size_t)(parser->end - parser->p);

        while (!at_end(parser)) {
                const char *line = parser->p, *newline = memchr(parser->p, '\n', (size_t)(parser->end - parser->p));
                const char *line_end = newline ? newline : parser->end;

                parser->p = newline ? newline + 1 : parser->end;
                const char *content = line;
                while (here->strip_tabs && content < line_end && *content == '\t')
                        content++;

                if (str_eq(str_n(content, (size_t)(line_end - content)), here->delimiter)) {
                        body_n = (size_t)(line - body);
                        break;
                }
        }

        struct str text = str_n(body, body_n);
        if (here->expands)
                return parse_expanding_text(parser, text, &here->redirect->target);

        struct sh_word *word = parser_get(parser, sizeof *word);
        struct sh_part *part = word ? parser_get(parser, sizeof *part) : NULL;
        if (!part)
                return -ENOMEM;

        *part = (struct sh_part){ .kind = SH_LITERAL, .quoted = true, .text = text };
        *word = (struct sh_word){ .parts = part, .quoted = true, .raw = text };
        here->redirect->target = word;

        return 0;
}

static int read_pending(struct parser *parser) {
        int r = 0;
        for (size_t i = 0; i < parser->n_here && r == 0; i++)
                r = read_here_document(parser, &parser->here[i]);
        parser->n_here = 0;
        return r;
}

static int take_newline(struct parser *parser) {
        parser->p++;
        return read_pending(parser);
}

int skip_newlines(struct parser *parser) {
        for (;;) {
                skip_blanks(parser);
                if (byte_ahead(parser, 0) != '\n')
                        return 0;

                int r = take_newline(parser);
                if (r < 0)
                        return r;
        }
}

/* The delimiter with its quotes removed; any quoting means that the body is taken as it is. */
static int delimiter_text(struct parser *parser, const struct sh_word *word, struct here_document *here) {
        struct str raw = word->raw;
        char *out = parser_get(parser, raw.n + 1);
        size_t n = 0;
        char quote = 0;

        if (!out)
                return -ENOMEM;

        for (size_t i = 0; i < raw.n; i++) {
                char c = raw.p[i];
                if (quote && c == quote)
                        quote = 0;
                else if (!quote && (c == '\'' || c == '"'))
                        quote = c;
                else if (c == '\\' && quote != '\'' && i + 1 < raw.n)
                        out[n++] = raw.p[++i];
                else
                        out[n++] = c;
        }

        here->delimiter = str_n(out, n);
        here->expands = !word->quoted;

        return 0;
}

static int here_document(struct parser *parser, struct sh_redirect *redirect, bool strip_tabs) {
        struct sh_word *word = NULL;

        skip_blanks(parser);
        int r = parse_word(parser, WORD_NORMAL, &word);
        if (r < 0)
                return r;
        if (!word)
                return parser_fail(parser, "a here-document needs a delimiter");
        if (parser->n_here == SH_HERE_DOCUMENTS_MAX)
                return parser_fail(parser, "too many here-documents on one line");

        struct here_document *here = &parser->here[parser->n_here++];
        *here = (struct here_document){ .redirect = redirect, .strip_tabs = strip_tabs };

        return delimiter_text(parser, word, here);
}

/* --- redirections ----------------------------------------------------------------------------------------------------
 */

static const struct {
        const char *text;
        enum sh_redirect_kind kind;
} operators[] = {
        /* longest first */
        { "&>>", SH_APPEND_BOTH },  { "<<<", SH_HERE_STRING }, { "<<-", SH_HERE_DOCUMENT },
        { "<<", SH_HERE_DOCUMENT }, { "&>", SH_WRITE_BOTH },   { ">>", SH_APPEND },
        { ">|", SH_WRITE },         { "<>", SH_READ_WRITE },   { "<&", SH_DUPLICATE_IN },
        { ">&", SH_DUPLICATE_OUT }, { "<", SH_READ },          { ">", SH_WRITE },
};

/* A number or {name} directly before the operator. */
static size_t redirect_prefix(const struct parser *parser, int *ret_fd, struct str *ret_variable) {
        size_t n = 0;
        uint64_t fd;

        *ret_fd = -1;
        *ret_variable = (struct str){ 0 };

        if (byte_ahead(parser, 0) == '{') {
                while (byte_ahead(parser, n + 1) == '_' || ascii_is_alnum(byte_ahead(parser, n + 1)))
                        n++;

                if (byte_ahead(parser, n + 1) != '}' || !is_name(str_n(parser->p + 1, n)))
                        return 0;

                *ret_variable = str_n(parser->p + 1, n);
                return n + 2;
        }

        while (ascii_is_digit(byte_ahead(parser, n)))
                n++;

        if (n > 0 && str_to_u64(str_n(parser->p, n), INT_MAX, &fd))
                *ret_fd = (int)fd;

        return n;
}

/* >& with anything but a number or - writes both streams to a file. */
static void settle_duplicate(struct sh_redirect *redirect) {
        if (redirect->kind != SH_DUPLICATE_OUT)
                return;

        struct str raw = redirect->target->raw;
        bool number = raw.n > 0;
        for (size_t i = 0; i < raw.n; i++)
                number = number && (ascii_is_digit(raw.p[i]) || (raw.p[i] == '-' && i + 1 == raw.n));

        bool known =
            !redirect->target->parts || (redirect->target->parts->kind == SH_LITERAL && !redirect->target->parts->next);
        if (!number && known && redirect->fd < 0)
                redirect->kind = SH_WRITE_BOTH;
}

int parse_redirect(struct parser *parser, struct sh_redirect ***tail) {
        int fd;
        struct str variable;
        size_t prefix = redirect_prefix(parser, &fd, &variable), length = 0;
        struct parser at = *parser;

        at.p += prefix;
        enum sh_redirect_kind kind = SH_READ;

        for (size_t i = 0; i < sizeof operators / sizeof operators[0] && length == 0; i++)
                if (looking_at(&at, operators[i].text)) {
                        length = strlen(operators[i].text);
                        kind = operators[i].kind;
                }

        bool process = length == 1 && byte_ahead(&at, 1) == '(' && prefix == 0;
        if (length == 0 || process || (prefix > 0 && *at.p == '&'))
                return 0;

        bool strip_tabs = looking_at(&at, "<<-");
        struct sh_redirect *redirect = parser_get(parser, sizeof *redirect);
        if (!redirect)
                return -ENOMEM;

        *redirect = (struct sh_redirect){ .kind = kind, .fd = fd, .variable = variable };
        parser->p += prefix + length;
        **tail = redirect;
        *tail = &redirect->next;

        if (kind == SH_HERE_DOCUMENT) {
                int r = here_document(parser, redirect, strip_tabs);
                if (r < 0)
                        return r;

                return 1;
        }

        skip_blanks(parser);
        int r = parse_word(parser, WORD_NORMAL, &redirect->target);
        if (r < 0)
                return r;
        if (!redirect->target)
                return parser_fail(parser, "a redirection needs a target");

        settle_duplicate(redirect);
        return 1;
}

int parse_redirects(struct parser *parser, struct sh_command *command) {
        struct sh_redirect **tail = &command->redirects;
        while (*tail)
                tail = &(*tail)->next;

        for (;;) {
                skip_blanks(parser);
                int r = parse_redirect(parser, &tail);
                if (r <= 0)
                        return r;
        }
}

/* --- simple commands
 * --------------------------------------------------------------------------------------------------- */

/* name=, name+=, name[index]=: how far the = is, or 0. */
static size_t assignment_length(const struct parser *parser) {
        size_t n = 0;

        if (!is_name_start(byte_ahead(parser, 0)))
                return 0;

        while (byte_ahead(parser, n) == '_' || ascii_is_alnum(byte_ahead(parser, n)))
                n++;

        if (byte_ahead(parser, n) == '[') {
                unsigned depth = 0;

                for (;; n++) {
                        char c = byte_ahead(parser, n);
                        if (c == '\0' || c == '\n')
                                return 0;

                        depth += c == '[';
                        depth -= c == ']';
                        if (c == ']' && depth == 0)
                                break;
                }

                n++;
        }

        if (byte_ahead(parser, n) == '+')
                n++;

        if (byte_ahead(parser, n) == '=')
                return n;

        return 0;
}

static int array_value(struct parser *parser, struct sh_assignment *assignment) {
        struct sh_word **tail = &assignment->array;

        assignment->is_array = true;
        parser->p++;

        for (;;) {
                int r = skip_newlines(parser);
                if (r < 0)
                        return r;

                if (byte_ahead(parser, 0) == ')') {
                        parser->p++;
                        return 0;
                }

                struct sh_word *word = NULL;
                r = parse_word(parser, WORD_NORMAL, &word);
                if (r < 0)
                        return r;

                if (!word)
                        return parser_fail(parser,
                                           at_end(parser) ? "an array is not closed" : "unexpected text in an array");

                *tail = word;
                tail = &word->next;
        }
}

int parse_assignment(struct parser *parser, struct sh_assignment **ret) {
        size_t length = assignment_length(parser);

        *ret = NULL;
        if (length == 0)
                return 0;

        struct sh_assignment *assignment = parser_get(parser, sizeof *assignment);
        if (!assignment)
                return -ENOMEM;

        const char *equals = parser->p + length;
        assignment->name = take_name(parser);
        assignment->append = equals[-1] == '+';

        int r = 0;

        if (*parser->p == '[') {
                parser->p++;
                r = parse_word(parser, WORD_INDEX, &assignment->index);
                if (r == 0 && byte_ahead(parser, 0) != ']')
                        r = parser_fail(parser, "an index is not closed");
        }

        if (r < 0)
                return r;

        parser->p = equals + 1;
        if (byte_ahead(parser, 0) == '(')
                r = array_value(parser, assignment);
        else
                r = parse_word(parser, WORD_NORMAL, &assignment->value);
        if (r == 0)
                *ret = assignment;

        return r;
}

static int add_word(struct parser *parser, struct sh_word ***tail) {
        struct sh_word *word = NULL;
        int r = parse_word(parser, WORD_NORMAL, &word);
        if (r < 0 || !word)
                return r;
        **tail = word;
        *tail = &word->next;
        return 1;
}

/* declare, export and their kin take assignments as arguments: the parentheses of an array are theirs. */
static int argument_assignment(struct parser *parser, const struct sh_command *command, struct sh_assignment ***tail) {
        static const char *const declaring[] = { "declare",  "typeset", "local", "export",
                                                 "readonly", "alias",   "eval",  "let" };
        size_t length = assignment_length(parser);
        if (length == 0 || parser->p[length + 1 < (size_t)(parser->end - parser->p) ? length + 1 : length] != '(')
                return 0;

        bool declares = false;
        for (size_t i = 0; i < sizeof declaring / sizeof declaring[0]; i++)
                declares = declares || str_is(command->words->raw, declaring[i]);

        if (!declares)
                return 0;

        struct sh_assignment *assignment = NULL;
        int r = parse_assignment(parser, &assignment);
        if (r < 0)
                return r;

        **tail = assignment;
        *tail = &assignment->next;

        return 1;
}

static int simple_command(struct parser *parser, struct sh_command *command) {
        struct sh_assignment **assignments = &command->assignments;
        struct sh_word **words = &command->words;
        struct sh_redirect **redirects = &command->redirects;

        for (;;) {
                skip_blanks(parser);
                int r = parse_redirect(parser, &redirects);
                if (r > 0)
                        continue;

                if (r == 0 && !command->words) {
                        struct sh_assignment *assignment = NULL;

                        r = parse_assignment(parser, &assignment);
                        if (r == 0 && assignment) {
                                *assignments = assignment;
                                assignments = &assignment->next;
                                continue;
                        }
                } else if (r == 0)
                        r = argument_assignment(parser, command, &assignments);

                if (r == 0)
                        r = add_word(parser, &words);
                if (r < 0)
                        return r;
                if (r == 0)
                        return 0;
        }
}

/* "name ( )" makes a function. */
static bool starts_function(struct parser *parser, const struct sh_command *command) {
        if (!command->words || command->words->next || command->words->quoted || command->assignments ||
            command->redirects || byte_ahead(parser, 0) != '(')
                return false;

        struct parser look = *parser;
        look.p++;
        skip_blanks(&look);

        if (byte_ahead(&look, 0) != ')')
                return false;

        parser->p = look.p + 1;
        return true;
}

static int function_body(struct parser *parser, struct sh_command *command) {
        command->kind = SH_FUNCTION;
        command->name = command->words->raw;
        command->words = NULL;

        int r = skip_newlines(parser);
        if (r == 0)
                r = parser_enter(parser);
        if (r == 0)
                r = parse_compound(parser, &command->inner);
        if (r < 0)
                return r;

        parser_leave(parser);
        if (!command->inner)
                return parser_fail(parser, "a function needs a body in braces or parentheses");

        return parse_redirects(parser, command->inner);
}

int parse_pipeline_command(struct parser *parser, struct sh_command **ret) {
        const char *from = parser->p;
        struct sh_command *command = NULL;
        int r = parser_enter(parser);
        if (r == 0)
                r = parse_compound(parser, &command);

        if (r == 0 && command)
                r = command->kind == SH_FUNCTION ? 0 : parse_redirects(parser, command);
        else if (r == 0) {
                command = parser_get(parser, sizeof *command);
                if (command)
                        r = simple_command(parser, command);
                else
                        r = -ENOMEM;
                if (r == 0 && starts_function(parser, command))
                        r = function_body(parser, command);

                if (r == 0 && command->kind == SH_SIMPLE && !command->words && !command->assignments &&
                    !command->redirects)
                        command = NULL; /* nothing here */
        }

        if (r < 0)
                return r;

        parser_leave(parser);
        if (command)
                command->raw = str_n(from, (size_t)(parser->p - from));

        *ret = command;
        return 0;
}

/* --- lists
 * ------------------------------------------------------------------------------------------------------------- */

bool see_reserved(const struct parser *parser, const char *word) {
        return looking_at(parser, word) && is_meta(byte_ahead(parser, strlen(word)));
}

bool take_reserved(struct parser *parser, const char *word) {
        if (!see_reserved(parser, word))
                return false;
        parser->p += strlen(word);
        return true;
}

int expect_reserved(struct parser *parser, const char *word) {
        int r = skip_newlines(parser);
        if (r < 0)
                return r;
        if (take_reserved(parser, word))
                return 0;

        char what[64];
        snprintf(what, sizeof what, "`%s' is missing here", word);

        return parser_fail(parser, what);
}

struct str take_name(struct parser *parser) {
        const char *from = parser->p;
        if (is_name_start(byte_ahead(parser, 0)))
                while (byte_ahead(parser, 0) == '_' || ascii_is_alnum(byte_ahead(parser, 0)))
                        parser->p++;
        return str_n(from, (size_t)(parser->p - from));
}

static bool ends_list(const struct parser *parser) {
        static const char *const closing[] = { "then", "else", "elif", "fi", "do", "done", "esac", "in", "}" };
        if (at_end(parser) || *parser->p == ')' || looking_at(parser, ";;") || looking_at(parser, ";&"))
                return true;
        for (size_t i = 0; i < sizeof closing / sizeof closing[0]; i++)
                if (see_reserved(parser, closing[i]))
                        return true;
        return false;
}

/* Prefixes of a pipeline: ! and time, in any order bash accepts. */
static bool pipeline_prefix(struct parser *parser, struct sh_pipeline *line) {
        bool any = false;
        for (;; any = true) {
                skip_blanks(parser);
                const char *from = parser->p;

                if (take_reserved(parser, "!"))
                        line->negated = !line->negated;
                else if (take_reserved(parser, "time")) {
                        skip_blanks(parser);

                        if (see_reserved(parser, "-p"))
                                parser->p += 2;
                        else if (byte_ahead(parser, 0) ==
                                 '-') { /* options of a program: plain shells have no such word */
                                parser->p = from;
                                return any;
                        }

                        line->timed = true;
                } else
                        return any;
        }
}

static int parse_pipeline(struct parser *parser, struct sh_pipeline *line) {
        struct sh_command **tail = &line->commands;
        bool prefixed = pipeline_prefix(parser, line);

        for (;;) {
                struct sh_command *command = NULL;
                int r = parse_pipeline_command(parser, &command);
                if (r < 0)
                        return r;

                if (!command && (line->commands || !prefixed))
                        return parser_fail(parser, at_end(parser) ? "a command is missing at the end"
                                                                  : "a command is missing here");

                if (!command)
                        return 0; /* `!' and `time' alone */

                *tail = command;
                tail = &command->next;
                skip_blanks(parser);

                if (byte_ahead(parser, 0) != '|' || byte_ahead(parser, 1) == '|')
                        return 0;

                parser->p += byte_ahead(parser, 1) == '&' ? 2 : 1;
                r = skip_newlines(parser);
                if (r < 0)
                        return r;

                struct sh_pipeline inner = { 0 };
                pipeline_prefix(parser, &inner); /* bash takes ! and time here too */
        }
}

/* What stands between two pipelines; 1 when another one must follow, 0 when one may. */
static int take_join(struct parser *parser, enum sh_join *ret) {
        skip_blanks(parser);

        if (looking_at(parser, "&&") || looking_at(parser, "||")) {
                *ret = *parser->p == '&' ? SH_JOIN_AND : SH_JOIN_OR;
                parser->p += 2;
                int r = skip_newlines(parser);
                if (r < 0)
                        return r;

                return 1;
        }

        if (byte_ahead(parser, 0) == '&' ||
            (byte_ahead(parser, 0) == ';' && byte_ahead(parser, 1) != ';' && byte_ahead(parser, 1) != '&')) {
                *ret = *parser->p == '&' ? SH_JOIN_BACKGROUND : SH_JOIN_SEQUENCE;
                parser->p++;
                return 0;
        }

        *ret = byte_ahead(parser, 0) == '\n' ? SH_JOIN_SEQUENCE : SH_JOIN_END;
        return 0;
}

int parse_list(struct parser *parser, struct sh_list **ret) {
        struct sh_list *list = parser_get(parser, sizeof *list);
        if (!list)
                return -ENOMEM;

        struct sh_pipeline **tail = &list->pipelines;
        bool must = false;

        for (;;) {
                int r = skip_newlines(parser);
                if (r < 0)
                        return r;

                if (ends_list(parser)) {
                        if (must)
                                return parser_fail(parser, "a command is missing behind && or ||");
                        break;
                }

                struct sh_pipeline *line = parser_get(parser, sizeof *line);
                if (line)
                        r = parse_pipeline(parser, line);
                else
                        r = -ENOMEM;
                if (r < 0)
                        return r;

                *tail = line;
                tail = &line->next;
                r = take_join(parser, &line->join);
                if (r < 0)
                        return r;

                must = r == 1;
                if (line->join == SH_JOIN_END)
                        break;
        }

        *ret = list;
        return 0;
}

int parse_body(struct parser *parser, struct sh_list **ret) {
        int r = parse_list(parser, ret);
        if (r == 0 && !(*ret)->pipelines)
                return parser_fail(parser, "a command is missing here");
        return r;
}

static int parse_program(struct parser *parser, struct sh_list **ret) {
        int r = parse_list(parser, ret);
        if (r == 0)
                r = skip_newlines(parser);
        if (r == 0 && !at_end(parser))
                r = parser_fail(parser, "unexpected text");
        /* A here-document whose line was the last: its body is empty. */
        if (r < 0)
                return r;

        return read_pending(parser);
}

int parse_nested(struct parser *outer, struct str text, struct sh_list **ret) {
        struct parser parser = parser_within(outer, text);
        int r = parser_enter(&parser);
        if (r < 0)
                return r;

        return parse_program(&parser, ret);
}

int sh_parse(struct str source, struct sh_tree **ret, struct err *err) {
        if (source.n > SH_SOURCE_MAX)
                return err_set(err, E2BIG, "longer than %d bytes", SH_SOURCE_MAX);
        if (str_has_nul(source))
                return err_set(err, EINVAL, "contains a NUL byte");

        cleanup(sh_tree_freep) struct sh_tree *tree = calloc(1, sizeof *tree);
        if (!tree)
                return err_memory(err);

        tree->arena.max = SH_MEMORY_MAX;
        struct str text = arena_copy(&tree->arena, source);
        if (!text.p)
                return err_memory(err);

        struct err own = { 0 };
        struct parser parser = {
                .p = text.p, .end = text.p + text.n, .start = text.p, .arena = &tree->arena, .e = err ? err : &own
        };
        int r = parse_program(&parser, &tree->list);
        if (r < 0)
                return r;

        *ret = take_ptr(&tree);
        return 0;
}

const struct sh_list *sh_tree_list(const struct sh_tree *tree) {
        return tree->list;
}

void sh_tree_free(struct sh_tree *tree) {
        if (!tree)
                return;
        arena_done(&tree->arena);
        free(tree);
}

void sh_tree_freep(struct sh_tree **sh_tree) {
        sh_tree_free(*sh_tree);
}
