/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words: quotes, expansions and patterns, read into parts. A word keeps what it would mean (text with quotes removed)
 * apart from what cannot be known without running it (parameters, substitutions), so that the classifier never guesses.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "shell/parser.h"

struct word_builder {
        struct parser *p;
        struct sh_word *word;
        struct sh_part **tail;
        struct buf text; /* literal text collected so far */
        bool text_quoted, any_text;
};

static int builder_start(struct word_builder *b, struct parser *p) {
        *b = (struct word_builder){ .p = p, .text = BUF(SH_SOURCE_MAX) };
        b->word = parser_get(p, sizeof *b->word);
        if (!b->word)
                return -ENOMEM;
        b->tail = &b->word->parts;
        return 0;
}

static int add_part(struct word_builder *b, struct sh_part part) {
        struct sh_part *copy = parser_get(b->p, sizeof *copy);
        if (!copy)
                return -ENOMEM;
        *copy = part;
        *b->tail = copy;
        b->tail = &copy->next;
        return 0;
}

static int flush_text(struct word_builder *b) {
        if (!b->any_text)
                return 0;
        struct str text = arena_copy(b->p->arena, buf_str(&b->text));
        if (!text.p)
                return parser_fail(b->p, "out of memory");
        int r = add_part(b, (struct sh_part){ .kind = SH_LITERAL, .quoted = b->text_quoted, .text = text });
        buf_clear(&b->text);
        b->any_text = false;
        return r;
}

static int add_text(struct word_builder *b, struct str s, bool quoted) {
        if (b->any_text && b->text_quoted != quoted) {
                int r = flush_text(b);
                if (r < 0)
                        return r;
        }
        b->any_text = true;
        b->text_quoted = quoted;
        return buf_append(&b->text, s) < 0 ? parser_fail(b->p, "out of memory") : 0;
}

static int add_special(struct word_builder *b, struct sh_part part) {
        int r = flush_text(b);
        return r < 0 ? r : add_part(b, part);
}

static int single_quotes(struct word_builder *b) {
        struct parser *p = b->p;
        const char *close = memchr(p->p, '\'', (size_t)(p->end - p->p));
        if (!close)
                return parser_fail(p, "a single quote is not closed");
        struct str text = str_n(p->p, (size_t)(close - p->p));
        p->p = close + 1;
        b->word->quoted = true;
        return add_text(b, text, true);
}

static int utf8_encode(uint32_t code, char ret[static 4]) {
        if (code < 0x80) {
                ret[0] = (char)code;
                return 1;
        }
        if (code < 0x800) {
                ret[0] = (char)(0xc0 | code >> 6);
                ret[1] = (char)(0x80 | (code & 0x3f));
                return 2;
        }
        if (code < 0x10000) {
                ret[0] = (char)(0xe0 | code >> 12);
                ret[1] = (char)(0x80 | (code >> 6 & 0x3f));
                ret[2] = (char)(0x80 | (code & 0x3f));
                return 3;
        }
        ret[0] = (char)(0xf0 | code >> 18);
        ret[1] = (char)(0x80 | (code >> 12 & 0x3f));
        ret[2] = (char)(0x80 | (code >> 6 & 0x3f));
        ret[3] = (char)(0x80 | (code & 0x3f));
        return 4;
}

static uint32_t take_digits(struct parser *p, unsigned base, unsigned most) {
        uint32_t value = 0;
        for (unsigned i = 0; i < most; i++) {
                int digit = ascii_hex(ahead(p, 0));
                if (at_end(p) || digit < 0 || (unsigned)digit >= base)
                        break;
                value = value * base + (unsigned)digit;
                p->p++;
        }
        return value;
}

/* One escape of $'...', the backslash already read. */
static int ansi_escape(struct word_builder *b) {
        static const char letters[] = "abeEfnrtv\\'\"?", values[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
        struct parser *p = b->p;
        char c = ahead(p, 0), out[4];
        const char *simple = c ? strchr(letters, c) : NULL;
        if (simple) {
                p->p++;
                return add_text(b, str_n(&values[simple - letters], 1), true);
        }
        if (c >= '0' && c <= '7') {
                out[0] = (char)take_digits(p, 8, 3);
                return add_text(b, str_n(out, 1), true);
        }
        if (c == 'x' || c == 'u' || c == 'U') {
                p->p++;
                uint32_t code = take_digits(p, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8);
                int n = c == 'x' ? 1 : utf8_encode(code & 0x1fffff, out);
                if (c == 'x')
                        out[0] = (char)code;
                return add_text(b, str_n(out, (size_t)n), true);
        }
        if (c == 'c' && ahead(p, 1)) {
                out[0] = (char)(ahead(p, 1) & 0x1f);
                p->p += 2;
                return add_text(b, str_n(out, 1), true);
        }
        return add_text(b, STR("\\"), true);
}

static int ansi_quotes(struct word_builder *b) {
        struct parser *p = b->p;
        b->word->quoted = true;
        int r = add_text(b, STR(""), true);
        while (r == 0) {
                if (at_end(p))
                        return parser_fail(p, "a $' quote is not closed");
                char c = *p->p++;
                if (c == '\'')
                        return 0;
                r = c == '\\' ? ansi_escape(b) : add_text(b, str_n(&c, 1), true);
        }
        return r;
}

static int command_substitution(struct word_builder *b, bool quoted) {
        struct parser *p = b->p; /* behind "$(" */
        struct sh_part part = { .kind = SH_COMMAND, .quoted = quoted };
        int r = parser_enter(p);
        if (r == 0)
                r = parse_list(p, &part.list);
        if (r == 0)
                r = skip_newlines(p);
        if (r == 0 && ahead(p, 0) != ')')
                r = parser_fail(p, at_end(p) ? "a $( is not closed" : "unexpected text in a $( )");
        if (r < 0)
                return r;
        p->p++;
        parser_leave(p);
        return add_special(b, part);
}

/* `...`: the text between with its backslashes removed is a program of its own. */
static int backquotes(struct word_builder *b, bool quoted) {
        struct parser *p = b->p;
        cleanup(buf_done) struct buf inside = BUF(SH_SOURCE_MAX);
        for (;; p->p++) {
                if (at_end(p))
                        return parser_fail(p, "a backquote is not closed");
                if (*p->p == '`')
                        break;
                if (*p->p == '\\' &&
                    (ahead(p, 1) == '`' || ahead(p, 1) == '\\' || ahead(p, 1) == '$' || (quoted && ahead(p, 1) == '"')))
                        p->p++;
                if (buf_add_char(&inside, *p->p) < 0)
                        return parser_fail(p, "out of memory");
        }
        p->p++;
        struct sh_part part = { .kind = SH_COMMAND, .quoted = quoted, .text = arena_copy(p->arena, buf_str(&inside)) };
        if (!part.text.p)
                return parser_fail(p, "out of memory");
        int r = parse_nested(p, part.text, &part.list);
        if (r == -EINVAL) { /* the shell would see it only when it runs */
                err_clear(p->e);
                part.kind = SH_OPAQUE;
                part.list = NULL;
                r = 0;
        }
        return r < 0 ? r : add_special(b, part);
}

static int dollar(struct word_builder *b, bool quoted);

/* Behind "${": the name, an index, an operator with its operand, up to the closing brace. */
static int braced_parameter(struct word_builder *b, bool quoted) {
        struct parser *p = b->p;
        struct sh_part part = { .kind = SH_PARAMETER, .quoted = quoted };
        const char *from = p->p;
        if (at_end(p))
                return parser_fail(p, "a ${ is not closed");
        if (ahead(p, 0) == '#' || ahead(p, 0) == '!')
                p->p += ahead(p, 1) != '}' ? 1 : 0;
        if (is_name_start(ahead(p, 0)) || ascii_is_digit(ahead(p, 0)))
                while (ascii_is_alnum(ahead(p, 0)) || ahead(p, 0) == '_')
                        p->p++;
        else if (!at_end(p) && strchr("@*#?-$!", *p->p))
                p->p++;
        part.text = str_n(from, (size_t)(p->p - from));
        int r = parser_enter(p);
        if (r == 0)
                r = parse_word(p, WORD_BRACED, &part.word);
        if (r < 0)
                return r;
        parser_leave(p);
        if (ahead(p, 0) != '}')
                return parser_fail(p, "a ${ is not closed");
        p->p++;
        return add_special(b, part);
}

static int dollar_parenthesis(struct word_builder *b, bool quoted) {
        struct parser *p = b->p; /* at "(" behind "$" */
        if (ahead(p, 1) == '(') {
                struct sh_part part = { .kind = SH_ARITHMETIC, .quoted = quoted };
                p->p += 2;
                int r = parse_arithmetic(p, &part.word);
                if (r == 0)
                        return add_special(b, part);
                if (r != -EAGAIN)
                        return r;
                p->p -= 2;
        }
        p->p++;
        return command_substitution(b, quoted);
}

static int dollar(struct word_builder *b, bool quoted) {
        struct parser *p = b->p; /* behind "$" */
        char c = ahead(p, 0);
        if (c == '(')
                return dollar_parenthesis(b, quoted);
        if (c == '{') {
                p->p++;
                return braced_parameter(b, quoted);
        }
        if (c == '[') { /* the old arithmetic: kept as it is written */
                struct sh_part part = { .kind = SH_ARITHMETIC, .quoted = quoted };
                p->p++;
                int r = parse_word(p, WORD_INDEX, &part.word);
                if (r == 0 && ahead(p, 0) != ']')
                        r = parser_fail(p, "a $[ is not closed");
                if (r < 0)
                        return r;
                p->p++;
                return add_special(b, part);
        }
        const char *from = p->p;
        if (is_name_start(c))
                while (ascii_is_alnum(ahead(p, 0)) || ahead(p, 0) == '_')
                        p->p++;
        else if (c && (strchr("@*#?-$!", c) || ascii_is_digit(c)))
                p->p++;
        else
                return add_text(b, STR("$"), quoted); /* a dollar sign and nothing more */
        return add_special(
            b, (struct sh_part){ .kind = SH_PARAMETER, .quoted = quoted, .text = str_n(from, (size_t)(p->p - from)) });
}

static int double_quotes(struct word_builder *b) {
        struct parser *p = b->p;
        b->word->quoted = true;
        int r = add_text(b, STR(""), true);
        while (r == 0) {
                if (at_end(p))
                        return parser_fail(p, "a double quote is not closed");
                char c = *p->p++;
                if (c == '"')
                        return 0;
                if (c == '$')
                        r = dollar(b, true);
                else if (c == '`')
                        r = backquotes(b, true);
                else if (c == '\\' && ahead(p, 0) == '\n')
                        p->p++;
                else if (c == '\\' && ahead(p, 0) && strchr("$`\"\\", ahead(p, 0)))
                        r = add_text(b, str_n(p->p++, 1), true);
                else
                        r = add_text(b, str_n(&c, 1), true);
        }
        return r;
}

/* @(a|b) and its kin, up to the matching parenthesis: kept as written. */
static int extended_pattern(struct word_builder *b) {
        struct parser *p = b->p;
        const char *from = p->p;
        unsigned depth = 0;
        for (p->p++; !at_end(p); p->p++) {
                if (*p->p == '\\' && p->p + 1 < p->end)
                        p->p++;
                else if (*p->p == '\'' || *p->p == '"') {
                        const char *close = memchr(p->p + 1, *p->p, (size_t)(p->end - p->p - 1));
                        if (!close)
                                break;
                        p->p = close;
                } else if (*p->p == '(')
                        depth++;
                else if (*p->p == ')' && --depth == 0) {
                        p->p++;
                        return add_special(
                            b, (struct sh_part){ .kind = SH_PATTERN, .text = str_n(from, (size_t)(p->p - from)) });
                }
        }
        return parser_fail(p, "a pattern's parenthesis is not closed");
}

/* {a,b} or {1..9} at this brace: its length, else 0. Nested braces count; quotes and blanks end the attempt. */
static size_t brace_expansion(const struct parser *p) {
        unsigned depth = 0;
        bool separates = false;
        for (size_t i = 0; i < (size_t)(p->end - p->p); i++) {
                char c = p->p[i];
                if (c == '\\')
                        i++;
                else if (c == '{')
                        depth++;
                else if (c == '}' && --depth == 0)
                        return separates ? i + 1 : 0;
                else if (depth == 1 && (c == ',' || (c == '.' && ahead(p, i + 1) == '.')))
                        separates = true;
                else if (is_meta(c) && c != '<' && c != '>')
                        return 0;
        }
        return 0;
}

static bool ends_word(const struct parser *p, enum word_mode mode) {
        char c = ahead(p, 0);
        switch (mode) {
        case WORD_BRACED:
                return c == '}';
        case WORD_INDEX:
                return c == ']';
        case WORD_CONDITION:
                return c == ' ' || c == '\t' || c == '\n' || c == ';' || looking_at(p, "&&") || looking_at(p, "||");
        case WORD_NORMAL:
        case WORD_CASE:
                return is_meta(c);
        }
        return true;
}

/* <( and >( are words; other < and > end one. */
static int process_substitution(struct word_builder *b) {
        struct parser *p = b->p;
        struct sh_part part = { .kind = SH_PROCESS };
        p->p += 2;
        int r = parser_enter(p);
        if (r == 0)
                r = parse_list(p, &part.list);
        if (r == 0)
                r = skip_newlines(p);
        if (r == 0 && ahead(p, 0) != ')')
                r = parser_fail(p, "a process substitution is not closed");
        if (r < 0)
                return r;
        p->p++;
        parser_leave(p);
        return add_special(b, part);
}

static bool starts_extended_pattern(const struct parser *p, enum word_mode mode) {
        return (mode == WORD_CASE || mode == WORD_CONDITION) && !at_end(p) && strchr("@?*+!", *p->p) &&
               ahead(p, 1) == '(';
}

static int tilde(struct word_builder *b) {
        struct parser *p = b->p;
        const char *from = p->p++;
        while (ascii_is_alnum(ahead(p, 0)) || (ahead(p, 0) && strchr("_-+.", ahead(p, 0))))
                p->p++;
        return add_special(b, (struct sh_part){ .kind = SH_TILDE, .text = str_n(from, (size_t)(p->p - from)) });
}

/* One unquoted character or construct. */
static int unquoted(struct word_builder *b, enum word_mode mode, bool first) {
        struct parser *p = b->p;
        size_t length;
        if (starts_extended_pattern(p, mode)) {
                return extended_pattern(b);
        }
        if (mode == WORD_NORMAL && *p->p == '{' && (length = brace_expansion(p)) > 0) {
                struct str text = str_n(p->p, length);
                p->p += length;
                return add_special(b, (struct sh_part){ .kind = SH_BRACE, .text = text });
        }
        if (first && mode == WORD_NORMAL && *p->p == '~')
                return tilde(b);
        if (*p->p == '*' || *p->p == '?' || *p->p == '[')
                return add_special(b, (struct sh_part){ .kind = SH_PATTERN, .text = str_n(p->p++, 1) });
        return add_text(b, str_n(p->p++, 1), false);
}

static int word_step(struct word_builder *b, enum word_mode mode, bool first) {
        struct parser *p = b->p;
        switch (*p->p) {
        case '\\':
                if (ahead(p, 1) == '\n') {
                        p->p += 2;
                        return 0;
                }
                b->word->quoted = true;
                p->p++;
                return at_end(p) ? add_text(b, STR("\\"), true) : add_text(b, str_n(p->p++, 1), true);
        case '\'':
                p->p++;
                return single_quotes(b);
        case '"':
                p->p++;
                return double_quotes(b);
        case '`':
                p->p++;
                return backquotes(b, false);
        case '$':
                p->p++;
                if (ahead(p, 0) == '\'') {
                        p->p++;
                        return ansi_quotes(b);
                }
                if (ahead(p, 0) == '"') {
                        p->p++;
                        return double_quotes(b);
                }
                return dollar(b, false);
        default:
                return unquoted(b, mode, first);
        }
}

/* In a condition's pattern, a parenthesis belongs to the word as long as it is balanced. */
static bool takes_parenthesis(const struct parser *p, enum word_mode mode, unsigned *depth) {
        if (mode != WORD_CONDITION)
                return false;
        if (ahead(p, 0) == '(')
                ++*depth;
        else if (ahead(p, 0) == ')' && *depth > 0)
                --*depth;
        else
                return *depth > 0 && ahead(p, 0) != '\n' && !at_end(p);
        return true;
}

int parse_word(struct parser *p, enum word_mode mode, struct sh_word **ret) {
        struct word_builder b;
        const char *from = p->p;
        unsigned depth = 0;
        int r = builder_start(&b, p);
        while (r == 0 && !at_end(p)) {
                if ((*p->p == '<' || *p->p == '>') && ahead(p, 1) == '(' &&
                    (mode == WORD_NORMAL || mode == WORD_BRACED)) {
                        r = process_substitution(&b);
                        continue;
                }
                bool escaped = *p->p == '\\' || *p->p == '\'' || *p->p == '"' || *p->p == '$' || *p->p == '`';
                bool inner = !escaped && !starts_extended_pattern(p, mode) && takes_parenthesis(p, mode, &depth);
                if (inner) {
                        r = add_text(&b, str_n(p->p++, 1), false);
                        continue;
                }
                if (!starts_extended_pattern(p, mode) && ends_word(p, mode))
                        break;
                if (mode == WORD_CONDITION && *p->p == ')')
                        break;
                r = word_step(&b, mode, p->p == from);
        }
        if (r == 0)
                r = flush_text(&b);
        buf_done(&b.text);
        if (r < 0)
                return r;
        b.word->raw = str_n(from, (size_t)(p->p - from));
        *ret = p->p == from ? NULL : b.word;
        return 0;
}

int parse_expanding_text(struct parser *outer, struct str text, struct sh_word **ret) {
        struct parser p = { .p = text.p,
                            .end = text.p + text.n,
                            .start = text.p,
                            .depth = outer->depth,
                            .arena = outer->arena,
                            .e = outer->e };
        struct word_builder b;
        int r = builder_start(&b, &p);
        while (r == 0 && !at_end(&p)) {
                char c = *p.p++;
                if (c == '$')
                        r = dollar(&b, true);
                else if (c == '`')
                        r = backquotes(&b, true);
                else if (c == '\\' && ahead(&p, 0) && strchr("$`\\\n", ahead(&p, 0)))
                        r = add_text(&b, str_n(p.p++, 1), true);
                else
                        r = add_text(&b, str_n(&c, 1), true);
        }
        if (r == 0)
                r = flush_text(&b);
        buf_done(&b.text);
        if (r < 0)
                return r;
        b.word->quoted = true;
        b.word->raw = text;
        *ret = b.word;
        return 0;
}

/*
 * Whether what follows "((" is closed by "))", or is a subshell in parentheses. Decided by a look ahead that knows
 * quotes and nesting but parses nothing: trying one reading and then the other would take exponential time on nested
 * openings.
 */
static bool is_arithmetic(const struct parser *p) {
        unsigned depth = 0;
        for (const char *c = p->p; c < p->end; c++) {
                if (*c == '\\')
                        c++;
                else if (*c == '\'' || *c == '"' || *c == '`') {
                        char quote = *c;
                        for (c++; c < p->end && *c != quote; c++)
                                c += *c == '\\' && quote != '\'';
                } else if (*c == '(')
                        depth++;
                else if (*c == ')' && depth-- == 0)
                        return c + 1 < p->end && c[1] == ')';
        }
        return false;
}

int parse_arithmetic(struct parser *p, struct sh_word **ret) {
        if (!is_arithmetic(p))
                return -EAGAIN;
        struct word_builder b;
        unsigned depth = 0;
        const char *from = p->p;
        int r = parser_enter(p);
        if (r == 0)
                r = builder_start(&b, p);
        if (r < 0)
                return r;
        while (r == 0 && !(ahead(p, 0) == ')' && depth == 0)) {
                if (at_end(p))
                        r = parser_fail(p, "an arithmetic expression is not closed");
                else if (strchr("\\'\"`$", *p->p))
                        r = word_step(&b, WORD_INDEX, false);
                else {
                        depth += *p->p == '(';
                        depth -= *p->p == ')';
                        r = add_text(&b, str_n(p->p++, 1), false);
                }
        }
        if (r == 0)
                r = flush_text(&b);
        buf_done(&b.text);
        if (r == 0 && ahead(p, 1) != ')')
                r = parser_fail(p, "an arithmetic expression is not closed");
        if (r < 0)
                return r;
        parser_leave(p);
        b.word->raw = str_n(from, (size_t)(p->p - from));
        p->p += 2;
        *ret = b.word;
        return 0;
}
