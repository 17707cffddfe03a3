/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/jsonc.h"

#include "base/cleanup.h"
#include "conf/scan.h"

#include <errno.h>

/* Space and comments. */
static int skip_space(struct scan *scan) {
        for (;;) {
                char c = scan_peek(scan, 0), next = scan_peek(scan, 1);

                if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
                        scan_skip(scan, 1);
                } else if (c == '/' && next == '/') {
                        while (!scan_at_end(scan) && scan_peek(scan, 0) != '\n')
                                scan_skip(scan, 1);
                } else if (c == '/' && next == '*') {
                        scan_skip(scan, 2);
                        while (!scan_at_end(scan) && !(scan_peek(scan, 0) == '*' && scan_peek(scan, 1) == '/'))
                                scan_skip(scan, 1);
                        if (!scan_take(scan, "*/"))
                                return scan_error(scan, "the comment has no end");
                } else {
                        return 0;
                }
        }
}

static size_t count_digits(const struct scan *scan, size_t from) {
        size_t n = 0;

        while (ascii_is_digit(scan_peek(scan, from + n)))
                n++;
        return n;
}

/* The length of the number here, 0 when it is none. */
static size_t number_length(const struct scan *scan) {
        size_t n = scan_peek(scan, 0) == '-', whole = count_digits(scan, n), more;

        if (whole == 0 || (whole > 1 && scan_peek(scan, n) == '0'))
                return 0;

        n += whole;
        if (scan_peek(scan, n) == '.') {
                more = count_digits(scan, n + 1);
                if (more == 0)
                        return 0;
                n += 1 + more;
        }

        if (ascii_lower(scan_peek(scan, n)) == 'e') {
                size_t sign = scan_peek(scan, n + 1) == '+' || scan_peek(scan, n + 1) == '-';

                more = count_digits(scan, n + 1 + sign);
                if (more == 0)
                        return 0;

                n += 1 + sign + more;
        }

        return n;
}

static int read_word(struct scan *scan, struct node *node) {
        static const char *const words[] = { "true", "false", "null" };
        size_t length = number_length(scan);

        for (size_t i = 0; i < sizeof words / sizeof *words && length == 0; i++)
                if (str_starts(str_skip(scan->text, scan->at), str_of(words[i])))
                        length = strlen(words[i]);

        char next = scan_peek(scan, length);
        if (length == 0 || ascii_is_alnum(next) || next == '.' || next == '_' || next == '-')
                return scan_unexpected(scan,
                                       "a value (a string in double quotes, a number, true, false, null, { or [)");

        struct str word = str_n(scan->text.p + scan->at, length);
        scan_skip(scan, length);

        if (str_is(word, "null")) {
                node->kind = NODE_NULL;
                return 0;
        }

        return document_text(scan->document, word, &node->text, scan->err);
}

static int read_value(struct scan *s, struct node *parent, struct node **ret);

static int read_member(struct scan *scan, struct node *map) {
        uint32_t line = scan->line, column = scan->column;
        struct node *value = NULL;
        struct str key;
        int r;

        if (scan_peek(scan, 0) != '"')
                return scan_unexpected(scan, "a key in double quotes, or }");

        r = scan_string(scan, '"', SCAN_JSON, &key);
        if (r == 0)
                r = skip_space(scan);
        if (r == 0 && !scan_take(scan, ":"))
                r = scan_unexpected(scan, ":");
        if (r == 0)
                r = skip_space(scan);
        if (r == 0)
                r = read_value(scan, map, &value);
        if (r == 0 && !value)
                r = scan_unexpected(scan, "a value");
        if (r < 0 || !value)
                return r;

        value->key = key;
        value->key_line = line;
        value->key_column = column;

        return 0;
}

/* The members or elements, behind the opening bracket. */
static int read_children(struct scan *scan, struct node *node, char closer) {
        const char end[] = { closer, '\0' };
        struct node *element;
        int r;

        for (;;) {
                r = skip_space(scan);
                if (r < 0)
                        return r;
                if (scan_take(scan, end)) {
                        if (node->kind == NODE_MAP)
                                return document_check_keys(scan->document, node, scan->err);
                        return 0;
                }

                if (node->kind == NODE_MAP)
                        r = read_member(scan, node);
                else
                        r = read_value(scan, node, &element);
                if (r == 0)
                        r = skip_space(scan);
                if (r < 0)
                        return r;
                if (!scan_take(scan, ",") && scan_peek(scan, 0) != closer)
                        return scan_unexpected(scan, node->kind == NODE_MAP ? ", or }" : ", or ]");
        }
}

static int read_value(struct scan *scan, struct node *parent, struct node **ret) {
        char c = scan_peek(scan, 0);
        enum node_kind kind = c == '{' ? NODE_MAP : NODE_SCALAR;
        int r;

        if (c == '[')
                kind = NODE_LIST;

        scan->depth++;
        struct node *n = scan_node(scan, parent, kind);
        if (!n)
                return -EINVAL;

        if (kind != NODE_SCALAR) {
                scan_skip(scan, 1);
                r = read_children(scan, n, c == '{' ? '}' : ']');
        } else if (c == '"') {
                n->quoted = true;
                r = scan_string(scan, '"', SCAN_JSON, &n->text);
        } else {
                r = read_word(scan, n);
        }

        scan->depth--;
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
