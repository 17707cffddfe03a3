/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell parser. It reads what POSIX and bash call a program and nothing else: no error recovery, no guessing,
 * nothing is ever run or expanded. What it does not understand it refuses, and the classifier takes a refusal as "ask a
 * person".
 *
 * parse.c: lists, pipelines, simple commands, redirections, here-documents. compound.c: if, for, case and the rest.
 * word.c: what a word is made of. Limits: 1 MiB of text, 100 levels of nesting, 64 MiB for the tree.
 */
#include "shell/parser.h"

#include "base/cleanup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct sh_tree {
        struct arena arena;
        struct sh_list *list;
};

int parser_fail(struct parser *p, const char *what) {
        unsigned line = 1;
        for (const char *c = p->start; c < p->p && c < p->end; c++)
                line += *c == '\n';
        return err_set(p->e, EINVAL, "line %u: %s", line, what);
}

int parser_enter(struct parser *p) {
        if (p->depth >= SH_DEPTH_MAX)
                return err_set(p->e, E2BIG, "nested deeper than %d levels", SH_DEPTH_MAX);
        p->depth++;
        return 0;
}

void parser_leave(struct parser *p) {
        p->depth--;
}

void *parser_get(struct parser *p, size_t n) {
        void *memory = arena_get(p->arena, n);
        if (!memory)
                err_set(p->e, ENOMEM, "too large to examine");
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

void skip_blanks(struct parser *p) {
        for (;;) {
                if (ahead(p, 0) == ' ' || ahead(p, 0) == '\t')
                        p->p++;
                else if (ahead(p, 0) == '\\' && ahead(p, 1) == '\n')
                        p->p += 2;
                else
                        break;
        }
        if (ahead(p, 0) == '#')
                while (!at_end(p) && *p->p != '\n')
                        p->p++;
}

/* --- here-documents --------------------------------------------------------------------------------------------------
 */

/* The lines up to the delimiter, which start here; the text's end closes it too, as in the shell. */
static int read_here_document(struct parser *p, const struct here_document *here) {
        const char *body = p->p;
        size_t body_n = (size_t)(p->end - p->p);
        while (!at_end(p)) {
                const char *line = p->p, *newline = memchr(p->p, '\n', (size_t)(p->end - p->p));
                const char *line_end = newline ? newline : p->end;
                p->p = newline ? newline + 1 : p->end;
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
                return parse_expanding_text(p, text, &here->redirect->target);
        struct sh_word *word = parser_get(p, sizeof *word);
        struct sh_part *part = word ? parser_get(p, sizeof *part) : NULL;
        if (!part)
                return -ENOMEM;
        *part = (struct sh_part){ .kind = SH_LITERAL, .quoted = true, .text = text };
        *word = (struct sh_word){ .parts = part, .quoted = true, .raw = text };
        here->redirect->target = word;
        return 0;
}

static int read_pending(struct parser *p) {
        int r = 0;
        for (size_t i = 0; i < p->n_here && r == 0; i++)
                r = read_here_document(p, &p->here[i]);
        p->n_here = 0;
        return r;
}

static int take_newline(struct parser *p) {
        p->p++;
        return read_pending(p);
}

int skip_newlines(struct parser *p) {
        for (;;) {
                skip_blanks(p);
                if (ahead(p, 0) != '\n')
                        return 0;
                int r = take_newline(p);
                if (r < 0)
                        return r;
        }
}

/* The delimiter with its quotes removed; any quoting means that the body is taken as it is. */
static int delimiter_text(struct parser *p, const struct sh_word *word, struct here_document *here) {
        struct str raw = word->raw;
        char *out = parser_get(p, raw.n + 1);
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

static int here_document(struct parser *p, struct sh_redirect *redirect, bool strip_tabs) {
        struct sh_word *word = NULL;
        skip_blanks(p);
        int r = parse_word(p, WORD_NORMAL, &word);
        if (r < 0)
                return r;
        if (!word)
                return parser_fail(p, "a here-document needs a delimiter");
        if (p->n_here == SH_HERE_DOCUMENTS_MAX)
                return parser_fail(p, "too many here-documents on one line");
        struct here_document *here = &p->here[p->n_here++];
        *here = (struct here_document){ .redirect = redirect, .strip_tabs = strip_tabs };
        return delimiter_text(p, word, here);
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
static size_t redirect_prefix(const struct parser *p, int *ret_fd, struct str *ret_variable) {
        size_t n = 0;
        uint64_t fd;
        *ret_fd = -1;
        *ret_variable = (struct str){ 0 };
        if (ahead(p, 0) == '{') {
                while (ahead(p, n + 1) == '_' || ascii_is_alnum(ahead(p, n + 1)))
                        n++;
                if (ahead(p, n + 1) != '}' || !is_name(str_n(p->p + 1, n)))
                        return 0;
                *ret_variable = str_n(p->p + 1, n);
                return n + 2;
        }
        while (ascii_is_digit(ahead(p, n)))
                n++;
        if (n > 0 && str_to_u64(str_n(p->p, n), INT_MAX, &fd))
                *ret_fd = (int)fd;
        return n;
}

/* >& with anything but a number or - writes both streams to a file. */
static void settle_duplicate(struct sh_redirect *r) {
        if (r->kind != SH_DUPLICATE_OUT)
                return;
        struct str raw = r->target->raw;
        bool number = raw.n > 0;
        for (size_t i = 0; i < raw.n; i++)
                number = number && (ascii_is_digit(raw.p[i]) || (raw.p[i] == '-' && i + 1 == raw.n));
        bool known = !r->target->parts || (r->target->parts->kind == SH_LITERAL && !r->target->parts->next);
        if (!number && known && r->fd < 0)
                r->kind = SH_WRITE_BOTH;
}

int parse_redirect(struct parser *p, struct sh_redirect ***tail) {
        int fd;
        struct str variable;
        size_t prefix = redirect_prefix(p, &fd, &variable), length = 0;
        struct parser at = *p;
        at.p += prefix;
        enum sh_redirect_kind kind = SH_READ;
        for (size_t i = 0; i < sizeof operators / sizeof operators[0] && length == 0; i++)
                if (looking_at(&at, operators[i].text)) {
                        length = strlen(operators[i].text);
                        kind = operators[i].kind;
                }
        bool process = length == 1 && ahead(&at, 1) == '(' && prefix == 0;
        if (length == 0 || process || (prefix > 0 && *at.p == '&'))
                return 0;
        bool strip_tabs = looking_at(&at, "<<-");
        struct sh_redirect *redirect = parser_get(p, sizeof *redirect);
        if (!redirect)
                return -ENOMEM;
        *redirect = (struct sh_redirect){ .kind = kind, .fd = fd, .variable = variable };
        p->p += prefix + length;
        **tail = redirect;
        *tail = &redirect->next;
        if (kind == SH_HERE_DOCUMENT) {
                int r = here_document(p, redirect, strip_tabs);
                return r < 0 ? r : 1;
        }
        skip_blanks(p);
        int r = parse_word(p, WORD_NORMAL, &redirect->target);
        if (r < 0)
                return r;
        if (!redirect->target)
                return parser_fail(p, "a redirection needs a target");
        settle_duplicate(redirect);
        return 1;
}

int parse_redirects(struct parser *p, struct sh_command *c) {
        struct sh_redirect **tail = &c->redirects;
        while (*tail)
                tail = &(*tail)->next;
        for (;;) {
                skip_blanks(p);
                int r = parse_redirect(p, &tail);
                if (r <= 0)
                        return r;
        }
}

/* --- simple commands
 * --------------------------------------------------------------------------------------------------- */

/* name=, name+=, name[index]=: how far the = is, or 0. */
static size_t assignment_length(const struct parser *p) {
        size_t n = 0;
        if (!is_name_start(ahead(p, 0)))
                return 0;
        while (ahead(p, n) == '_' || ascii_is_alnum(ahead(p, n)))
                n++;
        if (ahead(p, n) == '[') {
                unsigned depth = 0;
                for (;; n++) {
                        char c = ahead(p, n);
                        if (c == '\0' || c == '\n')
                                return 0;
                        depth += c == '[';
                        depth -= c == ']';
                        if (c == ']' && depth == 0)
                                break;
                }
                n++;
        }
        if (ahead(p, n) == '+')
                n++;
        return ahead(p, n) == '=' ? n : 0;
}

static int array_value(struct parser *p, struct sh_assignment *a) {
        struct sh_word **tail = &a->array;
        a->is_array = true;
        p->p++;
        for (;;) {
                int r = skip_newlines(p);
                if (r < 0)
                        return r;
                if (ahead(p, 0) == ')') {
                        p->p++;
                        return 0;
                }
                struct sh_word *word = NULL;
                r = parse_word(p, WORD_NORMAL, &word);
                if (r < 0)
                        return r;
                if (!word)
                        return parser_fail(p, at_end(p) ? "an array is not closed" : "unexpected text in an array");
                *tail = word;
                tail = &word->next;
        }
}

int parse_assignment(struct parser *p, struct sh_assignment **ret) {
        size_t length = assignment_length(p);
        *ret = NULL;
        if (length == 0)
                return 0;
        struct sh_assignment *a = parser_get(p, sizeof *a);
        if (!a)
                return -ENOMEM;
        const char *equals = p->p + length;
        a->name = take_name(p);
        a->append = equals[-1] == '+';
        int r = 0;
        if (*p->p == '[') {
                p->p++;
                r = parse_word(p, WORD_INDEX, &a->index);
                if (r == 0 && ahead(p, 0) != ']')
                        r = parser_fail(p, "an index is not closed");
        }
        if (r < 0)
                return r;
        p->p = equals + 1;
        r = ahead(p, 0) == '(' ? array_value(p, a) : parse_word(p, WORD_NORMAL, &a->value);
        if (r == 0)
                *ret = a;
        return r;
}

static int add_word(struct parser *p, struct sh_word ***tail) {
        struct sh_word *word = NULL;
        int r = parse_word(p, WORD_NORMAL, &word);
        if (r < 0 || !word)
                return r;
        **tail = word;
        *tail = &word->next;
        return 1;
}

/* declare, export and their kin take assignments as arguments: the parentheses of an array are theirs. */
static int argument_assignment(struct parser *p, const struct sh_command *c, struct sh_assignment ***tail) {
        static const char *const declaring[] = { "declare",  "typeset", "local", "export",
                                                 "readonly", "alias",   "eval",  "let" };
        size_t length = assignment_length(p);
        if (length == 0 || p->p[length + 1 < (size_t)(p->end - p->p) ? length + 1 : length] != '(')
                return 0;
        bool declares = false;
        for (size_t i = 0; i < sizeof declaring / sizeof declaring[0]; i++)
                declares = declares || str_is(c->words->raw, declaring[i]);
        if (!declares)
                return 0;
        struct sh_assignment *a = NULL;
        int r = parse_assignment(p, &a);
        if (r < 0)
                return r;
        **tail = a;
        *tail = &a->next;
        return 1;
}

static int simple_command(struct parser *p, struct sh_command *c) {
        struct sh_assignment **assignments = &c->assignments;
        struct sh_word **words = &c->words;
        struct sh_redirect **redirects = &c->redirects;
        for (;;) {
                skip_blanks(p);
                int r = parse_redirect(p, &redirects);
                if (r > 0)
                        continue;
                if (r == 0 && !c->words) {
                        struct sh_assignment *a = NULL;
                        r = parse_assignment(p, &a);
                        if (r == 0 && a) {
                                *assignments = a;
                                assignments = &a->next;
                                continue;
                        }
                } else if (r == 0)
                        r = argument_assignment(p, c, &assignments);
                if (r == 0)
                        r = add_word(p, &words);
                if (r < 0)
                        return r;
                if (r == 0)
                        return 0;
        }
}

/* "name ( )" makes a function. */
static bool starts_function(struct parser *p, const struct sh_command *c) {
        if (!c->words || c->words->next || c->words->quoted || c->assignments || c->redirects || ahead(p, 0) != '(')
                return false;
        struct parser look = *p;
        look.p++;
        skip_blanks(&look);
        if (ahead(&look, 0) != ')')
                return false;
        p->p = look.p + 1;
        return true;
}

static int function_body(struct parser *p, struct sh_command *c) {
        c->kind = SH_FUNCTION;
        c->name = c->words->raw;
        c->words = NULL;
        int r = skip_newlines(p);
        if (r == 0)
                r = parser_enter(p);
        if (r == 0)
                r = parse_compound(p, &c->inner);
        if (r < 0)
                return r;
        parser_leave(p);
        if (!c->inner)
                return parser_fail(p, "a function needs a body in braces or parentheses");
        return parse_redirects(p, c->inner);
}

int parse_pipeline_command(struct parser *p, struct sh_command **ret) {
        const char *from = p->p;
        struct sh_command *c = NULL;
        int r = parser_enter(p);
        if (r == 0)
                r = parse_compound(p, &c);
        if (r == 0 && c)
                r = c->kind == SH_FUNCTION ? 0 : parse_redirects(p, c);
        else if (r == 0) {
                c = parser_get(p, sizeof *c);
                r = c ? simple_command(p, c) : -ENOMEM;
                if (r == 0 && starts_function(p, c))
                        r = function_body(p, c);
                if (r == 0 && c->kind == SH_SIMPLE && !c->words && !c->assignments && !c->redirects)
                        c = NULL; /* nothing here */
        }
        if (r < 0)
                return r;
        parser_leave(p);
        if (c)
                c->raw = str_n(from, (size_t)(p->p - from));
        *ret = c;
        return 0;
}

/* --- lists
 * ------------------------------------------------------------------------------------------------------------- */

bool see_reserved(const struct parser *p, const char *word) {
        return looking_at(p, word) && is_meta(ahead(p, strlen(word)));
}

bool take_reserved(struct parser *p, const char *word) {
        if (!see_reserved(p, word))
                return false;
        p->p += strlen(word);
        return true;
}

int expect_reserved(struct parser *p, const char *word) {
        int r = skip_newlines(p);
        if (r < 0)
                return r;
        if (take_reserved(p, word))
                return 0;
        char what[64];
        snprintf(what, sizeof what, "`%s' is missing here", word);
        return parser_fail(p, what);
}

struct str take_name(struct parser *p) {
        const char *from = p->p;
        if (is_name_start(ahead(p, 0)))
                while (ahead(p, 0) == '_' || ascii_is_alnum(ahead(p, 0)))
                        p->p++;
        return str_n(from, (size_t)(p->p - from));
}

static bool ends_list(const struct parser *p) {
        static const char *const closing[] = { "then", "else", "elif", "fi", "do", "done", "esac", "in", "}" };
        if (at_end(p) || *p->p == ')' || looking_at(p, ";;") || looking_at(p, ";&"))
                return true;
        for (size_t i = 0; i < sizeof closing / sizeof closing[0]; i++)
                if (see_reserved(p, closing[i]))
                        return true;
        return false;
}

/* Prefixes of a pipeline: ! and time, in any order bash accepts. */
static bool pipeline_prefix(struct parser *p, struct sh_pipeline *line) {
        bool any = false;
        for (;; any = true) {
                skip_blanks(p);
                const char *from = p->p;
                if (take_reserved(p, "!"))
                        line->negated = !line->negated;
                else if (take_reserved(p, "time")) {
                        skip_blanks(p);
                        if (see_reserved(p, "-p"))
                                p->p += 2;
                        else if (ahead(p, 0) == '-') { /* options of a program: plain shells have no such word */
                                p->p = from;
                                return any;
                        }
                        line->timed = true;
                } else
                        return any;
        }
}

static int parse_pipeline(struct parser *p, struct sh_pipeline *line) {
        struct sh_command **tail = &line->commands;
        bool prefixed = pipeline_prefix(p, line);
        for (;;) {
                struct sh_command *c = NULL;
                int r = parse_pipeline_command(p, &c);
                if (r < 0)
                        return r;
                if (!c && (line->commands || !prefixed))
                        return parser_fail(p,
                                           at_end(p) ? "a command is missing at the end" : "a command is missing here");
                if (!c)
                        return 0; /* `!' and `time' alone */
                *tail = c;
                tail = &c->next;
                skip_blanks(p);
                if (ahead(p, 0) != '|' || ahead(p, 1) == '|')
                        return 0;
                p->p += ahead(p, 1) == '&' ? 2 : 1;
                r = skip_newlines(p);
                if (r < 0)
                        return r;
                struct sh_pipeline inner = { 0 };
                pipeline_prefix(p, &inner); /* bash takes ! and time here too */
        }
}

/* What stands between two pipelines; 1 when another one must follow, 0 when one may. */
static int take_join(struct parser *p, enum sh_join *ret) {
        skip_blanks(p);
        if (looking_at(p, "&&") || looking_at(p, "||")) {
                *ret = *p->p == '&' ? SH_JOIN_AND : SH_JOIN_OR;
                p->p += 2;
                int r = skip_newlines(p);
                return r < 0 ? r : 1;
        }
        if (ahead(p, 0) == '&' || (ahead(p, 0) == ';' && ahead(p, 1) != ';' && ahead(p, 1) != '&')) {
                *ret = *p->p == '&' ? SH_JOIN_BACKGROUND : SH_JOIN_SEQUENCE;
                p->p++;
                return 0;
        }
        *ret = ahead(p, 0) == '\n' ? SH_JOIN_SEQUENCE : SH_JOIN_END;
        return 0;
}

int parse_list(struct parser *p, struct sh_list **ret) {
        struct sh_list *list = parser_get(p, sizeof *list);
        if (!list)
                return -ENOMEM;
        struct sh_pipeline **tail = &list->pipelines;
        bool must = false;
        for (;;) {
                int r = skip_newlines(p);
                if (r < 0)
                        return r;
                if (ends_list(p)) {
                        if (must)
                                return parser_fail(p, "a command is missing behind && or ||");
                        break;
                }
                struct sh_pipeline *line = parser_get(p, sizeof *line);
                r = line ? parse_pipeline(p, line) : -ENOMEM;
                if (r < 0)
                        return r;
                *tail = line;
                tail = &line->next;
                r = take_join(p, &line->join);
                if (r < 0)
                        return r;
                must = r == 1;
                if (line->join == SH_JOIN_END)
                        break;
        }
        *ret = list;
        return 0;
}

int parse_body(struct parser *p, struct sh_list **ret) {
        int r = parse_list(p, ret);
        if (r == 0 && !(*ret)->pipelines)
                return parser_fail(p, "a command is missing here");
        return r;
}

static int parse_program(struct parser *p, struct sh_list **ret) {
        int r = parse_list(p, ret);
        if (r == 0)
                r = skip_newlines(p);
        if (r == 0 && !at_end(p))
                r = parser_fail(p, "unexpected text");
        /* A here-document whose line was the last: its body is empty. */
        return r < 0 ? r : read_pending(p);
}

int parse_nested(struct parser *outer, struct str text, struct sh_list **ret) {
        struct parser p = { .p = text.p,
                            .end = text.p + text.n,
                            .start = text.p,
                            .depth = outer->depth,
                            .arena = outer->arena,
                            .e = outer->e };
        int r = parser_enter(&p);
        return r < 0 ? r : parse_program(&p, ret);
}

int sh_parse(struct str source, struct sh_tree **ret, struct err *e) {
        if (source.n > SH_SOURCE_MAX)
                return err_set(e, E2BIG, "longer than %d bytes", SH_SOURCE_MAX);
        if (str_has_nul(source))
                return err_set(e, EINVAL, "contains a NUL byte");
        cleanup(sh_tree_freep) struct sh_tree *tree = calloc(1, sizeof *tree);
        if (!tree)
                return err_set(e, ENOMEM, "out of memory");
        tree->arena.max = SH_MEMORY_MAX;
        struct str text = arena_copy(&tree->arena, source);
        if (!text.p)
                return err_set(e, ENOMEM, "out of memory");
        struct err own = { 0 };
        struct parser p = {
                .p = text.p, .end = text.p + text.n, .start = text.p, .arena = &tree->arena, .e = e ? e : &own
        };
        int r = parse_program(&p, &tree->list);
        if (r < 0)
                return r;
        *ret = take_ptr(&tree);
        return 0;
}

const struct sh_list *sh_tree_list(const struct sh_tree *t) {
        return t->list;
}

void sh_tree_free(struct sh_tree *t) {
        if (!t)
                return;
        arena_done(&t->arena);
        free(t);
}

void sh_tree_freep(struct sh_tree **t) {
        sh_tree_free(*t);
}
