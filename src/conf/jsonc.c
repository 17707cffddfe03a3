/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/jsonc.h"

#include "base/cleanup.h"
#include "conf/scan.h"

#include <errno.h>

/* Space and comments. */
static int skip_space(struct scan *s) {
        for (;;) {
                char c = scan_peek(s, 0), next = scan_peek(s, 1);

                if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
                        scan_skip(s, 1);
                } else if (c == '/' && next == '/') {
                        while (!scan_at_end(s) && scan_peek(s, 0) != '\n')
                                scan_skip(s, 1);
                } else if (c == '/' && next == '*') {
                        scan_skip(s, 2);
                        while (!scan_at_end(s) && !(scan_peek(s, 0) == '*' && scan_peek(s, 1) == '/'))
                                scan_skip(s, 1);
                        if (!scan_take(s, "*/"))
                                return scan_error(s, "the comment has no end");
                } else {
                        return 0;
                }
        }
}

static size_t count_digits(const struct scan *s, size_t from) {
        size_t n = 0;

        while (ascii_is_digit(scan_peek(s, from + n)))
                n++;
        return n;
}

/* The length of the number here, 0 when it is none. */
static size_t number_length(const struct scan *s) {
        size_t n = scan_peek(s, 0) == '-', whole = count_digits(s, n), more;

        if (whole == 0 || (whole > 1 && scan_peek(s, n) == '0'))
                return 0;

        n += whole;
        if (scan_peek(s, n) == '.') {
                more = count_digits(s, n + 1);
                if (more == 0)
                        return 0;
                n += 1 + more;
        }

        if (ascii_lower(scan_peek(s, n)) == 'e') {
                size_t sign = scan_peek(s, n + 1) == '+' || scan_peek(s, n + 1) == '-';

                more = count_digits(s, n + 1 + sign);
                if (more == 0)
                        return 0;

                n += 1 + sign + more;
        }

        return n;
}

static int read_word(struct scan *s, struct node *n) {
        static const char *const words[] = { "true", "false", "null" };
        size_t length = number_length(s);

        for (size_t i = 0; i < sizeof words / sizeof *words && length == 0; i++)
                if (str_starts(str_skip(s->text, s->at), str_of(words[i])))
                        length = strlen(words[i]);

        char next = scan_peek(s, length);
        if (length == 0 || ascii_is_alnum(next) || next == '.' || next == '_' || next == '-')
                return scan_unexpected(s, "a value (a string in double quotes, a number, true, false, null, { or [)");

        struct str word = str_n(s->text.p + s->at, length);
        scan_skip(s, length);

        if (str_is(word, "null")) {
                n->kind = NODE_NULL;
                return 0;
        }

        return document_text(s->document, word, &n->text, s->err);
}

static int read_value(struct scan *s, struct node *parent, struct node **ret);

static int read_member(struct scan *s, struct node *map) {
        uint32_t line = s->line, column = s->column;
        struct node *value = NULL;
        struct str key;
        int r;

        if (scan_peek(s, 0) != '"')
                return scan_unexpected(s, "a key in double quotes, or }");

        r = scan_string(s, '"', SCAN_JSON, &key);
        if (r == 0)
                r = skip_space(s);
        if (r == 0 && !scan_take(s, ":"))
                r = scan_unexpected(s, ":");
        if (r == 0)
                r = skip_space(s);
        if (r == 0)
                r = read_value(s, map, &value);
        if (r == 0 && !value)
                r = scan_unexpected(s, "a value");
        if (r < 0 || !value)
                return r;

        value->key = key;
        value->key_line = line;
        value->key_column = column;

        return 0;
}

/* The members or elements, behind the opening bracket. */
static int read_children(struct scan *s, struct node *n, char closer) {
        const char end[] = { closer, '\0' };
        struct node *element;
        int r;

        for (;;) {
                r = skip_space(s);
                if (r < 0)
                        return r;
                if (scan_take(s, end))
                        return n->kind == NODE_MAP ? document_check_keys(s->document, n, s->err) : 0;

                r = n->kind == NODE_MAP ? read_member(s, n) : read_value(s, n, &element);
                if (r == 0)
                        r = skip_space(s);
                if (r < 0)
                        return r;
                if (!scan_take(s, ",") && scan_peek(s, 0) != closer)
                        return scan_unexpected(s, n->kind == NODE_MAP ? ", or }" : ", or ]");
        }
}

static int read_value(struct scan *s, struct node *parent, struct node **ret) {
        char c = scan_peek(s, 0);
        enum node_kind kind = c == '{' ? NODE_MAP : NODE_SCALAR;
        int r;

        if (c == '[')
                kind = NODE_LIST;

        s->depth++;
        struct node *n = scan_node(s, parent, kind);
        if (!n)
                return -EINVAL;

        if (kind != NODE_SCALAR) {
                scan_skip(s, 1);
                r = read_children(s, n, c == '{' ? '}' : ']');
        } else if (c == '"') {
                n->quoted = true;
                r = scan_string(s, '"', SCAN_JSON, &n->text);
        } else {
                r = read_word(s, n);
        }

        s->depth--;
        *ret = n;

        return r;
}

int jsonc_read(struct str text, struct str name, struct document **ret, struct err *err) {
        struct err own = { 0 };
        struct scan s;
        struct node *root;
        int r;

        r = scan_open(&s, text, name, err ? err : &own);
        if (r == 0)
                r = skip_space(&s);
        if (r == 0)
                r = read_value(&s, NULL, &root);
        if (r == 0)
                r = skip_space(&s);
        if (r == 0 && !scan_at_end(&s))
                r = scan_unexpected(&s, "the end of the file");

        if (r < 0) {
                document_free(s.document);
                return r;
        }

        *ret = s.document;
        return 0;
}
