/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/starlark.h"

#include "base/cleanup.h"
#include "conf/scan.h"

#include <errno.h>

static void skip_space(struct scan *s) {
        for (;;) {
                char c = scan_peek(s, 0);

                if (c == '#')
                        while (!scan_at_end(s) && scan_peek(s, 0) != '\n')
                                scan_skip(s, 1);
                else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
                        scan_skip(s, 1);
                else
                        return;
        }
}

static int read_name(struct scan *s, struct str *ret, const char *wanted) {
        size_t n = 0;

        while (ascii_is_alnum(scan_peek(s, n)) || scan_peek(s, n) == '_')
                n++;

        if (n == 0 || ascii_is_digit(scan_peek(s, 0)))
                return scan_unexpected(s, wanted);

        *ret = str_n(s->text.p + s->at, n);
        scan_skip(s, n);

        return document_text(s->document, *ret, ret, s->err);
}

static int read_value(struct scan *s, struct node *parent, struct node **ret);

static int read_list(struct scan *s, struct node *list) {
        struct node *element;
        int r;

        scan_skip(s, 1);

        for (;;) {
                skip_space(s);
                if (scan_take(s, "]"))
                        return 0;

                r = read_value(s, list, &element);
                if (r < 0)
                        return r;

                skip_space(s);
                if (!scan_take(s, ",") && scan_peek(s, 0) != ']')
                        return scan_unexpected(s, ", or ]");
        }
}

/* True, False, None or a whole number. */
static int read_word(struct scan *s, struct node *n) {
        size_t digits = 0;

        while (ascii_is_digit(scan_peek(s, digits)))
                digits++;

        char next = scan_peek(s, digits);
        if (digits > 0 && !ascii_is_alnum(next) && next != '.' && next != '_') {
                struct str number = str_n(s->text.p + s->at, digits);

                scan_skip(s, digits);
                return document_text(s->document, number, &n->text, s->err);
        }

        const struct scan start = *s;
        struct str word;
        int r = read_name(s, &word, "a value (a string, a list, a number, True, False or None)");
        if (r < 0)
                return r;

        if (str_is(word, "None")) {
                n->kind = NODE_NULL;
                return 0;
        }

        if (!str_is(word, "True") && !str_is(word, "False")) {
                *s = start;
                return scan_error(s, "a name stands for something that would have to be computed; write the value");
        }

        return document_text(s->document, str_is(word, "True") ? STR("true") : STR("false"), &n->text, s->err);
}

static int read_value(struct scan *s, struct node *parent, struct node **ret) {
        char c = scan_peek(s, 0);
        struct node *n;
        int r;

        s->depth++;
        n = scan_node(s, parent, c == '[' ? NODE_LIST : NODE_SCALAR);
        if (!n)
                return -EINVAL;

        if (c == '[') {
                r = read_list(s, n);
        } else if (c == '"' || c == '\'') {
                n->quoted = true;
                if (scan_peek(s, 1) == c && scan_peek(s, 2) == c)
                        return scan_error(s, "a string of several lines is not read here");
                r = scan_string(s, c, SCAN_STARLARK, &n->text);
        } else {
                r = read_word(s, n);
        }

        s->depth--;
        *ret = n;

        return r;
}

static int read_argument(struct scan *s, struct node *call) {
        uint32_t line = s->line, column = s->column;
        struct node *value = NULL;
        struct str name;
        int r;

        r = read_name(s, &name, "the name of an argument, or )");
        if (r < 0)
                return r;

        skip_space(s);
        if (!scan_take(s, "="))
                return scan_unexpected(s, "= (arguments have names here)");

        skip_space(s);
        r = read_value(s, call, &value);
        if (r < 0 || !value)
                return r;

        value->key = name;
        value->key_line = line;
        value->key_column = column;

        return 0;
}

static int read_call(struct scan *s, struct node *root) {
        struct node *call;
        int r;

        s->depth = 1;
        call = scan_node(s, root, NODE_MAP);
        if (!call)
                return -EINVAL;

        call->key_line = call->line;
        call->key_column = call->column;
        r = read_name(s, &call->key, "the name of a function");
        if (r < 0)
                return r;

        skip_space(s);
        if (!scan_take(s, "("))
                return scan_unexpected(s, "( after the name of a function (only calls are read)");

        for (;;) {
                skip_space(s);
                if (scan_take(s, ")"))
                        return document_check_keys(s->document, call, s->err);

                r = read_argument(s, call);
                if (r < 0)
                        return r;

                skip_space(s);
                if (!scan_take(s, ",") && scan_peek(s, 0) != ')')
                        return scan_unexpected(s, ", or )");
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
