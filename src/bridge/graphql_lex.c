/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/graphql_lex.h"

static bool is_name_start(char c) {
        return c == '_' || (ascii_is_alnum(c) && !ascii_is_digit(c));
}

static bool is_source_byte(char c) {
        return (unsigned char)c >= 0x20 || c == '\t' || c == '\n' || c == '\r';
}

static size_t comment_length(struct str s) {
        size_t n = 0;

        while (n < s.n && s.p[n] != '\n' && s.p[n] != '\r' && is_source_byte(s.p[n]))
                n++;
        return n;
}

static void skip_ignored(struct str *left) {
        while (left->n > 0) {
                char c = left->p[0];
                if (c == '#')
                        *left = str_skip(*left, comment_length(*left));
                else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',')
                        *left = str_skip(*left, 1);
                else
                        return;
        }
}

static size_t lex_digits(struct str s, size_t at) {
        size_t n = 0;

        while (at + n < s.n && ascii_is_digit(s.p[at + n]))
                n++;
        return n;
}

/* 0: none. */
static size_t number_length(struct str s) {
        size_t at = s.p[0] == '-', n = lex_digits(s, at);

        if (n == 0 || (n > 1 && s.p[at] == '0'))
                return 0;

        at += n;
        if (at < s.n && s.p[at] == '.') {
                n = lex_digits(s, at + 1);
                if (n == 0)
                        return 0;
                at += 1 + n;
        }

        if (at < s.n && (s.p[at] == 'e' || s.p[at] == 'E')) {
                at++;
                at += at < s.n && (s.p[at] == '+' || s.p[at] == '-');
                n = lex_digits(s, at);
                if (n == 0)
                        return 0;

                at += n;
        }

        if (at < s.n && (s.p[at] == '.' || is_name_start(s.p[at]) || ascii_is_digit(s.p[at])))
                return 0;

        return at;
}

static size_t escape_length(struct str s, size_t at) {
        if (at + 1 >= s.n)
                return 0;
        if (s.p[at + 1] != 'u') {
                if (s.p[at + 1] != '\0' && strchr("\"\\/bfnrt", s.p[at + 1]))
                        return 2;
                return 0;
        }

        for (size_t i = at + 2; i < at + 6; i++)
                if (i >= s.n || ascii_hex(s.p[i]) < 0)
                        return 0;

        return 6;
}

static size_t string_length(struct str s) {
        size_t at = 1;

        while (at < s.n && s.p[at] != '"') {
                size_t n = s.p[at] == '\\' ? escape_length(s, at) : 1;
                if (n == 0 || s.p[at] == '\n' || s.p[at] == '\r' || !is_source_byte(s.p[at]))
                        return 0;
                at += n;
        }

        if (at < s.n)
                return at + 1;

        return 0;
}

/* """ ... """. Parsers from before 2018 take that for three strings; with neither quotes nor backslashes in it all of
 * them end at the same place. */
static size_t block_length(struct str s) {
        const struct str quotes = STR("\"\"\"");
        size_t at = quotes.n;

        while (at < s.n && s.p[at] != '"') {
                if (!is_source_byte(s.p[at]) || s.p[at] == '\\')
                        return 0;
                at++;
        }

        if (str_starts(str_skip(s, at), quotes))
                return at + quotes.n;

        return 0;
}

static struct graphql_token lex_token(struct str *left, enum graphql_token_kind kind, size_t n) {
        struct graphql_token token = { .kind = n ? kind : TOKEN_BAD, .text = str_first(*left, n) };

        token.mark = kind == TOKEN_MARK ? left->p[0] : '\0';
        *left = str_skip(*left, n);
        return token;
}

struct graphql_token graphql_lex(struct str *left) {
        size_t n = 0;

        skip_ignored(left);
        if (left->n == 0)
                return (struct graphql_token){ .kind = TOKEN_END };

        char c = left->p[0];
        if (is_name_start(c)) {
                while (n < left->n && (is_name_start(left->p[n]) || ascii_is_digit(left->p[n])))
                        n++;
                return lex_token(left, TOKEN_NAME, n);
        }

        if (ascii_is_digit(c) || c == '-')
                return lex_token(left, TOKEN_NUMBER, number_length(*left));
        if (str_starts(*left, STR("\"\"\"")))
                return lex_token(left, TOKEN_STRING, block_length(*left));
        if (c == '"')
                return lex_token(left, TOKEN_STRING, string_length(*left));
        if (str_starts(*left, STR("...")))
                return lex_token(left, TOKEN_SPREAD, 3);

        return lex_token(left, TOKEN_MARK, c != '\0' && strchr("!$():=@[]{}", c) ? 1 : 0);
}
