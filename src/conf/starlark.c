/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/starlark.h"

#include "base/cleanup.h"
#include "conf/scan.h"

#include <errno.h>

static void skip_space(struct scan *scan) {
        for (;;) {
                char c = scan_peek(scan, 0);

                if (c == '#')
                        while (!scan_at_end(scan) && scan_peek(scan, 0) != '\n')
                                scan_skip(scan, 1);
                else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
                        scan_skip(scan, 1);
                else
                        return;
        }
}

static int read_name(struct scan *scan, struct str *ret, const char *wanted) {
        size_t n = 0;

        while (ascii_is_alnum(scan_peek(scan, n)) || scan_peek(scan, n) == '_')
                n++;

        if (n == 0 || ascii_is_digit(scan_peek(scan, 0)))
                return scan_unexpected(scan, wanted);

        *ret = str_n(scan->text.p + scan->at, n);
        scan_skip(scan, n);

        return document_text(scan->document, *ret, ret, scan->err);
}

static int read_value(struct scan *s, struct node *parent, struct node **ret);

static int read_list(struct scan *scan, struct node *list) {
        struct node *element;
        int r;

        scan_skip(scan, 1);

        for (;;) {
                skip_space(scan);
                if (scan_take(scan, "]"))
                        return 0;

                r = read_value(scan, list, &element);
                if (r < 0)
                        return r;

                skip_space(scan);
                if (!scan_take(scan, ",") && scan_peek(scan, 0) != ']')
                        return scan_unexpected(scan, ", or ]");
        }
}

/* True, False, None or a whole number. */
static int read_word(struct scan *scan, struct node *node) {
        size_t digits = 0;

        while (ascii_is_digit(scan_peek(scan, digits)))
                digits++;

        char next = scan_peek(scan, digits);
        if (digits > 0 && !ascii_is_alnum(next) && next != '.' && next != '_') {
                struct str number = str_n(scan->text.p + scan->at, digits);

                scan_skip(scan, digits);
                return document_text(scan->document, number, &node->text, scan->err);
        }

        const struct scan start = *scan;
        struct str word;
        int r = read_name(scan, &word, "a value (a string, a list, a number, True, False or None)");
        if (r < 0)
                return r;

        if (str_is(word, "None")) {
                node->kind = NODE_NULL;
                return 0;
        }

        if (!str_is(word, "True") && !str_is(word, "False")) {
                *scan = start;
                return scan_error(scan, "a name stands for something that would have to be computed; write the value");
        }

        return document_text(scan->document, str_is(word, "True") ? STR("true") : STR("false"), &node->text, scan->err);
}

static int read_value(struct scan *scan, struct node *parent, struct node **ret) {
        char c = scan_peek(scan, 0);
        struct node *n;
        int r;

        scan->depth++;
        n = scan_node(scan, parent, c == '[' ? NODE_LIST : NODE_SCALAR);
        if (!n)
                return -EINVAL;

        if (c == '[') {
                r = read_list(scan, n);
        } else if (c == '"' || c == '\'') {
                n->quoted = true;
                if (scan_peek(scan, 1) == c && scan_peek(scan, 2) == c)
                        return scan_error(scan, "a string of several lines is not read here");
                r = scan_string(scan, c, SCAN_STARLARK, &n->text);
        } else {
                r = read_word(scan, n);
        }

        scan->depth--;
        *ret = n;

        return r;
}

static int read_argument(struct scan *scan, struct node *call) {
        uint32_t line = scan->line, column = scan->column;
        struct node *value = NULL;
        struct str name;
        int r;

        r = read_name(scan, &name, "the name of an argument, or )");
        if (r < 0)
                return r;

        skip_space(scan);
        if (!scan_take(scan, "="))
                return scan_unexpected(scan, "= (arguments have names here)");

        skip_space(scan);
        r = read_value(scan, call, &value);
        if (r < 0 || !value)
                return r;

        value->key = name;
        value->key_line = line;
        value->key_column = column;

        return 0;
}

static int read_call(struct scan *scan, struct node *root) {
        struct node *call;
        int r;

        scan->depth = 1;
        call = scan_node(scan, root, NODE_MAP);
        if (!call)
                return -EINVAL;

        call->key_line = call->line;
        call->key_column = call->column;
        r = read_name(scan, &call->key, "the name of a function");
        if (r < 0)
                return r;

        skip_space(scan);
        if (!scan_take(scan, "("))
                return scan_unexpected(scan, "( after the name of a function (only calls are read)");

        for (;;) {
                skip_space(scan);
                if (scan_take(scan, ")"))
                        return document_check_keys(scan->document, call, scan->err);

                r = read_argument(scan, call);
                if (r < 0)
                        return r;

                skip_space(scan);
                if (!scan_take(scan, ",") && scan_peek(scan, 0) != ')')
                        return scan_unexpected(scan, ", or )");
        }
}

int starlark_read(struct str text, struct str name, struct document **ret, struct err *err) {
        struct err own = { 0 };
        struct node *root = NULL;
        struct scan s;
        int r;

        r = scan_open(&s, text, name, err ? err : &own);
        if (r == 0) {
                root = scan_node(&s, NULL, NODE_LIST);
                r = root ? 0 : -EINVAL;
        }

        for (bool more = r == 0; more && r == 0;) {
                skip_space(&s);
                more = !scan_at_end(&s);
                if (more)
                        r = read_call(&s, root);
        }

        if (r < 0) {
                document_free(s.document);
                return r;
        }

        *ret = s.document;
        return 0;
}
