/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words: quotes, expansions and patterns, read into parts. A word keeps what it would mean (text with quotes removed)
 * apart from what cannot be known without running it (parameters, substitutions), so that the classifier never guesses.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "shell/parser_internal.h"

struct word_builder {
        struct parser *p;
        struct sh_word *word;
        struct sh_part **tail;
        struct buf text; /* literal text collected so far */
        bool text_quoted, any_text;
};

static int builder_start(struct word_builder *builder, struct parser *parser) {
        *builder = (struct word_builder){ .p = parser, .text = BUF(SH_SOURCE_MAX) };
        builder->word = parser_get(parser, sizeof *builder->word);
        if (!builder->word)
                return -ENOMEM;
        builder->tail = &builder->word->parts;
        return 0;
}

static int add_part(struct word_builder *builder, struct sh_part part) {
        struct sh_part *copy = parser_get(builder->p, sizeof *copy);
        if (!copy)
                return -ENOMEM;
        *copy = part;
        *builder->tail = copy;
        builder->tail = &copy->next;
        return 0;
}

static int flush_text(struct word_builder *builder) {
        if (!builder->any_text)
                return 0;

        struct str text = arena_copy(builder->p->arena, buf_str(&builder->text));
        if (!text.p)
                return parser_fail(builder->p, "out of memory");

        int r = add_part(builder, (struct sh_part){ .kind = SH_LITERAL, .quoted = builder->text_quoted, .text = text });
        buf_clear(&builder->text);
        builder->any_text = false;

        return r;
}

static int add_text(struct word_builder *builder, struct str s, bool quoted) {
        if (builder->any_text && builder->text_quoted != quoted) {
                int r = flush_text(builder);
                if (r < 0)
                        return r;
        }

        builder->any_text = true;
        builder->text_quoted = quoted;

        if (buf_append(&builder->text, s) < 0)
                return parser_fail(builder->p, "out of memory");

        return 0;
}

static int add_special(struct word_builder *builder, struct sh_part part) {
        int r = flush_text(builder);
        if (r < 0)
                return r;

        return add_part(builder, part);
}

static int single_quotes(struct word_builder *builder) {
        struct parser *parser = builder->p;
        const char *close = memchr(parser->p, '\'', (size_t)(parser->end - parser->p));
        if (!close)
                return parser_fail(parser, "a single quote is not closed");

        struct str text = str_n(parser->p, (size_t)(close - parser->p));
        parser->p = close + 1;
        builder->word->quoted = true;

        return add_text(builder, text, true);
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

static uint32_t take_digits(struct parser *parser, unsigned base, unsigned most) {
        uint32_t value = 0;

        for (unsigned i = 0; i < most; i++) {
                int digit = ascii_hex(byte_ahead(parser, 0));
                if (at_end(parser) || digit < 0 || (unsigned)digit >= base)
                        break;

                value = value * base + (unsigned)digit;
                parser->p++;
        }

        return value;
}

/* One escape of $'...', the backslash already read. */
static int ansi_escape(struct word_builder *builder) {
        static const char letters[] = "abeEfnrtv\\'\"?", values[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
        struct parser *parser = builder->p;
        char c = byte_ahead(parser, 0), out[4];
        const char *simple = c ? strchr(letters, c) : NULL;
        if (simple) {
                parser->p++;
                return add_text(builder, str_n(&values[simple - letters], 1), true);
        }

        if (c >= '0' && c <= '7') {
                out[0] = (char)take_digits(parser, 8, 3);
                return add_text(builder, str_n(out, 1), true);
        }

        if (c == 'x' || c == 'u' || c == 'U') {
                parser->p++;
                if (c == 'x') { /* a byte; the others are characters */
                        out[0] = (char)take_digits(parser, 16, 2);
                        return add_text(builder, str_n(out, 1), true);
                }

                uint32_t code = take_digits(parser, 16, c == 'u' ? 4 : 8);
                int n = utf8_encode(code & 0x1fffff, out);

                return add_text(builder, str_n(out, (size_t)n), true);
        }

        if (c == 'c' && byte_ahead(parser, 1)) {
                out[0] = (char)(byte_ahead(parser, 1) & 0x1f);
                parser->p += 2;
                return add_text(builder, str_n(out, 1), true);
        }

        return add_text(builder, STR("\\"), true);
}

static int ansi_quotes(struct word_builder *builder) {
        struct parser *parser = builder->p;

        builder->word->quoted = true;
        int r = add_text(builder, STR(""), true);
        while (r == 0) {
                if (at_end(parser))
                        return parser_fail(parser, "a $' quote is not closed");

                char c = *parser->p++;
                if (c == '\'')
                        return 0;

                if (c == '\\')
                        r = ansi_escape(builder);
                else
                        r = add_text(builder, str_n(&c, 1), true);
        }

        return r;
}

static int command_substitution(struct word_builder *builder, bool quoted) {
        struct parser *parser = builder->p; /* behind "$(" */
        struct sh_part part = { .kind = SH_COMMAND, .quoted = quoted };
        int r = parser_enter(parser);
        if (r == 0)
                r = parse_list(parser, &part.list);
        if (r == 0)
                r = skip_newlines(parser);
        if (r == 0 && byte_ahead(parser, 0) != ')')
                r = parser_fail(parser, at_end(parser) ? "a $( is not closed" : "unexpected text in a $( )");
        if (r < 0)
                return r;

        parser->p++;
        parser_leave(parser);

        return add_special(builder, part);
}

/* `...`: the text between with its backslashes removed is a program of its own. */
static int word_backquotes(struct word_builder *builder, bool quoted) {
        struct parser *parser = builder->p;
        cleanup(buf_done) struct buf inside = BUF(SH_SOURCE_MAX);

        for (;; parser->p++) {
                if (at_end(parser))
                        return parser_fail(parser, "a backquote is not closed");
                if (*parser->p == '`')
                        break;

                if (*parser->p == '\\' && (byte_ahead(parser, 1) == '`' || byte_ahead(parser, 1) == '\\' ||
                                           byte_ahead(parser, 1) == '$' || (quoted && byte_ahead(parser, 1) == '"')))
                        parser->p++;

                if (buf_add_char(&inside, *parser->p) < 0)
                        return parser_fail(parser, "out of memory");
        }

        parser->p++;
        struct sh_part part = { .kind = SH_COMMAND,
                                .quoted = quoted,
                                .text = arena_copy(parser->arena, buf_str(&inside)) };
        if (!part.text.p)
                return parser_fail(parser, "out of memory");

        int r = parse_nested(parser, part.text, &part.list);
        if (r == -EINVAL) { /* the shell would see it only when it runs */
                err_clear(parser->e);
                part.kind = SH_OPAQUE;
                part.list = NULL;
                r = 0;
        }

        if (r < 0)
                return r;

        return add_special(builder, part);
}

static int word_dollar(struct word_builder *builder, bool quoted);

/* Behind "${": the name, an index, an operator with its operand, up to the closing brace. */
static int braced_parameter(struct word_builder *builder, bool quoted) {
        struct parser *parser = builder->p;
        struct sh_part part = { .kind = SH_PARAMETER, .quoted = quoted };
        const char *from = parser->p;

        if (at_end(parser))
                return parser_fail(parser, "a ${ is not closed");
        if (byte_ahead(parser, 0) == '#' || byte_ahead(parser, 0) == '!')
                parser->p += byte_ahead(parser, 1) != '}' ? 1 : 0;

        if (is_name_start(byte_ahead(parser, 0)) || ascii_is_digit(byte_ahead(parser, 0)))
                while (ascii_is_alnum(byte_ahead(parser, 0)) || byte_ahead(parser, 0) == '_')
                        parser->p++;
        else if (!at_end(parser) && strchr("@*#?-$!", *parser->p))
                parser->p++;

        part.text = str_n(from, (size_t)(parser->p - from));
        int r = parser_enter(parser);
        if (r == 0)
                r = parse_word(parser, WORD_BRACED, &part.word);
        if (r < 0)
                return r;

        parser_leave(parser);
        if (byte_ahead(parser, 0) != '}')
                return parser_fail(parser, "a ${ is not closed");

        parser->p++;
        return add_special(builder, part);
}

static int dollar_parenthesis(struct word_builder *builder, bool quoted) {
        struct parser *parser = builder->p; /* at "(" behind "$" */
        if (byte_ahead(parser, 1) == '(') {
                struct sh_part part = { .kind = SH_ARITHMETIC, .quoted = quoted };

                parser->p += 2;
                int r = parse_arithmetic(parser, &part.word);
                if (r == 0)
                        return add_special(builder, part);
                if (r != -EAGAIN)
                        return r;

                parser->p -= 2;
        }

        parser->p++;
        return command_substitution(builder, quoted);
}

static int word_dollar(struct word_builder *builder, bool quoted) {
        struct parser *parser = builder->p; /* behind "$" */
        char c = byte_ahead(parser, 0);
        if (c == '(')
                return dollar_parenthesis(builder, quoted);

        if (c == '{') {
                parser->p++;
                return braced_parameter(builder, quoted);
        }

        if (c == '[') { /* the old arithmetic: kept as it is written */
                struct sh_part part = { .kind = SH_ARITHMETIC, .quoted = quoted };

                parser->p++;
                int r = parse_word(parser, WORD_INDEX, &part.word);
                if (r == 0 && byte_ahead(parser, 0) != ']')
                        r = parser_fail(parser, "a $[ is not closed");
                if (r < 0)
                        return r;

                parser->p++;
                return add_special(builder, part);
        }

        const char *from = parser->p;

        if (is_name_start(c))
                while (ascii_is_alnum(byte_ahead(parser, 0)) || byte_ahead(parser, 0) == '_')
                        parser->p++;
        else if (c && (strchr("@*#?-$!", c) || ascii_is_digit(c)))
                parser->p++;
        else
                return add_text(builder, STR("$"), quoted); /* a dollar sign and nothing more */

        return add_special(builder, (struct sh_part){ .kind = SH_PARAMETER,
                                                      .quoted = quoted,
                                                      .text = str_n(from, (size_t)(parser->p - from)) });
}

static int double_quotes(struct word_builder *builder) {
        struct parser *parser = builder->p;

        builder->word->quoted = true;
        int r = add_text(builder, STR(""), true);
        while (r == 0) {
                if (at_end(parser))
                        return parser_fail(parser, "a double quote is not closed");

                char c = *parser->p++;
                if (c == '"')
                        return 0;

                if (c == '$')
                        r = word_dollar(builder, true);
                else if (c == '`')
                        r = word_backquotes(builder, true);
                else if (c == '\\' && byte_ahead(parser, 0) == '\n')
                        parser->p++;
                else if (c == '\\' && byte_ahead(parser, 0) && strchr("$`\"\\", byte_ahead(parser, 0)))
                        r = add_text(builder, str_n(parser->p++, 1), true);
                else
                        r = add_text(builder, str_n(&c, 1), true);
        }

        return r;
}

/* @(a|b) and its kin, up to the matching parenthesis: kept as written. */
static int extended_pattern(struct word_builder *builder) {
        struct parser *parser = builder->p;
        const char *from = parser->p;
        unsigned depth = 0;

        for (parser->p++; !at_end(parser); parser->p++) {
                if (*parser->p == '\\' && parser->p + 1 < parser->end)
                        parser->p++;
                else if (*parser->p == '\'' || *parser->p == '"') {
                        const char *close = memchr(parser->p + 1, *parser->p, (size_t)(parser->end - parser->p - 1));
                        if (!close)
                                break;
                        parser->p = close;
                } else if (*parser->p == '(')
                        depth++;
                else if (*parser->p == ')' && --depth == 0) {
                        parser->p++;
                        return add_special(
                            builder,
                            (struct sh_part){ .kind = SH_PATTERN, .text = str_n(from, (size_t)(parser->p - from)) });
                }
        }

        return parser_fail(parser, "a pattern's parenthesis is not closed");
}

/* {a,b} or {1..9} at this brace: its length, else 0. Nested braces count; quotes and blanks end the attempt. */
static size_t brace_expansion(const struct parser *parser) {
        unsigned depth = 0;
        bool separates = false;

        for (size_t i = 0; i < (size_t)(parser->end - parser->p); i++) {
                char c = parser->p[i];
                if (c == '\\')
                        i++;
                else if (c == '{')
                        depth++;
                else if (c == '}' && --depth == 0)
                        return separates ? i + 1 : 0;
                else if (depth == 1 && (c == ',' || (c == '.' && byte_ahead(parser, i + 1) == '.')))
                        separates = true;
                else if (is_meta(c) && c != '<' && c != '>')
                        return 0;
        }

        return 0;
}

static bool ends_word(const struct parser *parser, enum word_mode mode) {
        char c = byte_ahead(parser, 0);

        switch (mode) {
        case WORD_BRACED:
                return c == '}';
        case WORD_INDEX:
                return c == ']';
        case WORD_CONDITION:
                return c == ' ' || c == '\t' || c == '\n' || c == ';' || looking_at(parser, "&&") ||
                       looking_at(parser, "||");
        case WORD_NORMAL:
        case WORD_CASE:
                return is_meta(c);
        }

        return true;
}

/* <( and >( are words; other < and > end one. */
static int process_substitution(struct word_builder *builder) {
        struct parser *parser = builder->p;
        struct sh_part part = { .kind = SH_PROCESS };

        parser->p += 2;
        int r = parser_enter(parser);
        if (r == 0)
                r = parse_list(parser, &part.list);
        if (r == 0)
                r = skip_newlines(parser);
        if (r == 0 && byte_ahead(parser, 0) != ')')
                r = parser_fail(parser, "a process substitution is not closed");
        if (r < 0)
                return r;

        parser->p++;
        parser_leave(parser);

        return add_special(builder, part);
}

static bool starts_extended_pattern(const struct parser *parser, enum word_mode mode) {
        return (mode == WORD_CASE || mode == WORD_CONDITION) && !at_end(parser) && strchr("@?*+!", *parser->p) &&
               byte_ahead(parser, 1) == '(';
}

static int word_tilde(struct word_builder *builder) {
        struct parser *parser = builder->p;
        const char *from = parser->p++;
        while (ascii_is_alnum(byte_ahead(parser, 0)) ||
               (byte_ahead(parser, 0) && strchr("_-+.", byte_ahead(parser, 0))))
                parser->p++;
        return add_special(builder,
                           (struct sh_part){ .kind = SH_TILDE, .text = str_n(from, (size_t)(parser->p - from)) });
}

/* One unquoted character or construct. */
static int word_unquoted(struct word_builder *builder, enum word_mode mode, bool first) {
        struct parser *parser = builder->p;
        size_t length;

        if (starts_extended_pattern(parser, mode)) {
                return extended_pattern(builder);
        }

        if (mode == WORD_NORMAL && *parser->p == '{' && (length = brace_expansion(parser)) > 0) {
                struct str text = str_n(parser->p, length);

                parser->p += length;
                return add_special(builder, (struct sh_part){ .kind = SH_BRACE, .text = text });
        }

        if (first && mode == WORD_NORMAL && *parser->p == '~')
                return word_tilde(builder);
        if (*parser->p == '*' || *parser->p == '?' || *parser->p == '[')
                return add_special(builder, (struct sh_part){ .kind = SH_PATTERN, .text = str_n(parser->p++, 1) });

        return add_text(builder, str_n(parser->p++, 1), false);
}

static int word_step(struct word_builder *builder, enum word_mode mode, bool first) {
        struct parser *parser = builder->p;
        switch (*parser->p) {
        case '\\':
                if (byte_ahead(parser, 1) == '\n') {
                        parser->p += 2;
                        return 0;
                }
                builder->word->quoted = true;
                parser->p++;
                if (at_end(parser))
                        return add_text(builder, STR("\\"), true);

                return add_text(builder, str_n(parser->p++, 1), true);
        case '\'':
                parser->p++;

                return single_quotes(builder);
        case '"':
                parser->p++;
                return double_quotes(builder);
        case '`':
                parser->p++;

                return word_backquotes(builder, false);
        case '$':
                parser->p++;

                if (byte_ahead(parser, 0) == '\'') {
                        parser->p++;
                        return ansi_quotes(builder);
                }

                if (byte_ahead(parser, 0) == '"') {
                        parser->p++;
                        return double_quotes(builder);
                }

                return word_dollar(builder, false);
        default:
                return word_unquoted(builder, mode, first);
        }
}

/* In a condition's pattern, a parenthesis belongs to the word as long as it is balanced. */
static bool takes_parenthesis(const struct parser *parser, enum word_mode mode, unsigned *depth) {
        if (mode != WORD_CONDITION)
                return false;

        if (byte_ahead(parser, 0) == '(')
                ++*depth;
        else if (byte_ahead(parser, 0) == ')' && *depth > 0)
                --*depth;
        else
                return *depth > 0 && byte_ahead(parser, 0) != '\n' && !at_end(parser);

        return true;
}

int parse_word(struct parser *parser, enum word_mode mode, struct sh_word **ret) {
        struct word_builder builder;
        const char *from = parser->p;
        unsigned depth = 0;
        int r = builder_start(&builder, parser);
        while (r == 0 && !at_end(parser)) {
                if ((*parser->p == '<' || *parser->p == '>') && byte_ahead(parser, 1) == '(' &&
                    (mode == WORD_NORMAL || mode == WORD_BRACED)) {
                        r = process_substitution(&builder);
                        continue;
                }

                bool escaped = *parser->p == '\\' || *parser->p == '\'' || *parser->p == '"' || *parser->p == '$' ||
                               *parser->p == '`';
                bool inner =
                    !escaped && !starts_extended_pattern(parser, mode) && takes_parenthesis(parser, mode, &depth);
                if (inner) {
                        r = add_text(&builder, str_n(parser->p++, 1), false);
                        continue;
                }

                if (!starts_extended_pattern(parser, mode) && ends_word(parser, mode))
                        break;
                if (mode == WORD_CONDITION && *parser->p == ')')
                        break;

                r = word_step(&builder, mode, parser->p == from);
        }

        if (r == 0)
                r = flush_text(&builder);

        buf_done(&builder.text);
        if (r < 0)
                return r;

        builder.word->raw = str_n(from, (size_t)(parser->p - from));
        *ret = parser->p == from ? NULL : builder.word;

        return 0;
}

int parse_expanding_text(struct parser *outer, struct str text, struct sh_word **ret) {
        struct parser parser = parser_within(outer, text);
        struct word_builder builder;
        int r = builder_start(&builder, &parser);
        while (r == 0 && !at_end(&parser)) {
                char c = *parser.p++;
                if (c == '$')
                        r = word_dollar(&builder, true);
                else if (c == '`')
                        r = word_backquotes(&builder, true);
                else if (c == '\\' && byte_ahead(&parser, 0) && strchr("$`\\\n", byte_ahead(&parser, 0)))
                        r = add_text(&builder, str_n(parser.p++, 1), true);
                else
                        r = add_text(&builder, str_n(&c, 1), true);
        }

        if (r == 0)
                r = flush_text(&builder);

        buf_done(&builder.text);
        if (r < 0)
                return r;

        builder.word->quoted = true;
        builder.word->raw = text;
        *ret = builder.word;

        return 0;
}

/*
 * Whether what follows "((" is closed by "))", or is a subshell in parentheses. Decided by a look ahead that knows
 * quotes and nesting but parses nothing: trying one reading and then the other would take exponential time on nested
 * openings.
 */
static bool is_arithmetic(const struct parser *parser) {
        unsigned depth = 0;

        for (const char *c = parser->p; c < parser->end; c++) {
                if (*c == '\\')
                        c++;
                else if (*c == '\'' || *c == '"' || *c == '`') {
                        char quote = *c;
                        for (c++; c < parser->end && *c != quote; c++)
                                c += *c == '\\' && quote != '\'';
                } else if (*c == '(')
                        depth++;
                else if (*c == ')' && depth-- == 0)
                        return c + 1 < parser->end && c[1] == ')';
        }

        return false;
}

int parse_arithmetic(struct parser *parser, struct sh_word **ret) {
        if (!is_arithmetic(parser))
                return -EAGAIN;

        struct word_builder builder;
        unsigned depth = 0;
        const char *from = parser->p;
        int r = parser_enter(parser);
        if (r == 0)
                r = builder_start(&builder, parser);
        if (r < 0)
                return r;

        while (r == 0 && !(byte_ahead(parser, 0) == ')' && depth == 0)) {
                if (at_end(parser))
                        r = parser_fail(parser, "an arithmetic expression is not closed");
                else if (strchr("\\'\"`$", *parser->p))
                        r = word_step(&builder, WORD_INDEX, false);
                else {
                        depth += *parser->p == '(';
                        depth -= *parser->p == ')';
                        r = add_text(&builder, str_n(parser->p++, 1), false);
                }
        }

        if (r == 0)
                r = flush_text(&builder);

        buf_done(&builder.text);
        if (r == 0 && byte_ahead(parser, 1) != ')')
                r = parser_fail(parser, "an arithmetic expression is not closed");
        if (r < 0)
                return r;

        parser_leave(parser);
        builder.word->raw = str_n(from, (size_t)(parser->p - from));
        parser->p += 2;
        *ret = builder.word;

        return 0;
}
