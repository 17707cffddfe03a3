/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/toml.h"

#include "base/cleanup.h"
#include "conf/scan.h"
#include "conf/suggest.h"

#include <errno.h>

/* While reading, `quoted` of a map or list says that its header was there: [x] once, and [[x]] only on its own lists.
 */

static void skip_blank(struct scan *scan) {
        while (scan_peek(scan, 0) == ' ' || scan_peek(scan, 0) == '\t')
                scan_skip(scan, 1);
}

/* Blanks, line ends and comments. */
static void skip_lines(struct scan *scan) {
        for (;;) {
                char c = scan_peek(scan, 0);

                if (c == '#')
                        while (!scan_at_end(scan) && scan_peek(scan, 0) != '\n')
                                scan_skip(scan, 1);
                else if (c == ' ' || c == '\t' || c == '\n' || (c == '\r' && scan_peek(scan, 1) == '\n'))
                        scan_skip(scan, 1);
                else
                        return;
        }
}

/* After a statement there is nothing more on its line. */
static int end_line(struct scan *scan) {
        skip_blank(scan);
        if (scan_at_end(scan) || scan_peek(scan, 0) == '#' || scan_peek(scan, 0) == '\n' ||
            (scan_peek(scan, 0) == '\r' && scan_peek(scan, 1) == '\n'))
                return 0;
        return scan_unexpected(scan, "the end of the line");
}

static bool is_bare(char c) {
        return ascii_is_alnum(c) || c == '_' || c == '-';
}

/* --- keys --- */

struct dotted {
        struct str parts[TOML_KEY_PARTS_MAX];
        size_t n;
        uint32_t line, column;
};

static int read_key_part(struct scan *scan, struct str *ret) {
        char c = scan_peek(scan, 0);
        size_t n = 0;

        if (c == '"' || c == '\'')
                return scan_string(scan, c, SCAN_TOML, ret);

        while (is_bare(scan_peek(scan, n)))
                n++;

        if (n == 0)
                return scan_unexpected(scan, "a key");

        *ret = str_n(scan->text.p + scan->at, n);
        scan_skip(scan, n);

        return document_text(scan->document, *ret, ret, scan->err);
}

static int read_key(struct scan *scan, struct dotted *ret) {
        *ret = (struct dotted){ .line = scan->line, .column = scan->column };

        do {
                int r;

                skip_blank(scan);
                if (ret->n == TOML_KEY_PARTS_MAX)
                        return scan_error(scan, "a key has more than %d parts", TOML_KEY_PARTS_MAX);

                r = read_key_part(scan, &ret->parts[ret->n++]);
                if (r < 0)
                        return r;

                skip_blank(scan);
        } while (scan_take(scan, "."));

        return 0;
}

static void name_node(struct node *node, struct str key, const struct dotted *from) {
        node->key = key;
        node->key_line = node->line = from->line;
        node->key_column = node->column = from->column;
}

static struct node *add_child(struct scan *scan, struct node *map, struct str key, enum node_kind kind,
                              const struct dotted *from) {
        struct node *n;

        if (map->n >= TOML_KEYS_MAX) {
                scan_error(scan, "a table has more than %d keys", TOML_KEYS_MAX);
                return NULL;
        }

        n = scan_node(scan, map, kind);
        if (n)
                name_node(n, key, from);

        return n;
}

static int refuse_twice(struct scan *scan, const struct node *there, struct str key) {
        return scan_error(scan, "%s is there twice: it is on line %u already", show(key).text, there->key_line);
}

/* The table that all parts but the last lead to. In an array of tables that is its last one. */
static int table_descend(struct scan *scan, struct node *from, const struct dotted *key, size_t parts,
                         struct node **ret) {
        struct node *at = from;

        for (size_t i = 0; i < parts; i++) {
                struct node *next = (struct node *)(uintptr_t)node_get(at, key->parts[i]);

                scan->depth++;

                if (!next)
                        next = add_child(scan, at, key->parts[i], NODE_MAP, key);
                else if (next->kind == NODE_LIST && next->quoted)
                        next = next->last;

                if (!next)
                        return -EINVAL;

                if (next->kind != NODE_MAP)
                        return scan_error(scan, "%s has a value already and cannot be a table too",
                                          show(key->parts[i]).text);

                at = next;
        }

        *ret = at;
        return 0;
}

/* --- values --- */

static int read_value(struct scan *s, struct node *parent, struct str key, const struct dotted *from);

/* """...""" and '''...'''. The scan is behind the opening quotes. */
static int read_long_string(struct scan *scan, const char *quotes, struct str *ret) {
        size_t start;

        if (!scan_take(scan, "\n"))
                (void)scan_take(scan, "\r\n");

        start = scan->at;
        while (!scan_at_end(scan) && !str_starts(str_skip(scan->text, scan->at), str_of(quotes)))
                scan_skip(scan, scan_peek(scan, 0) == '\\' && quotes[0] == '"' ? 2 : 1);

        if (scan_at_end(scan))
                return scan_error(scan, "the string of several lines has no end");

        /* Escapes stay as they are: none of these texts is used. */
        *ret = str_n(scan->text.p + start, scan->at - start);
        scan_skip(scan, 3);

        return document_text(scan->document, *ret, ret, scan->err);
}

static int read_word(struct scan *scan, struct str *ret) {
        struct str word;
        size_t n = 0;

        while (ascii_is_alnum(scan_peek(scan, n)) || (scan_peek(scan, n) && strchr("+-_.:", scan_peek(scan, n))))
                n++;

        word = str_n(scan->text.p + scan->at, n);
        bool number = n > 0 && (ascii_is_digit(word.p[0]) || (n > 1 && (word.p[0] == '-' || word.p[0] == '+')));
        if (!number && !str_is(word, "true") && !str_is(word, "false") && !str_is(word, "inf") && !str_is(word, "nan"))
                return scan_unexpected(scan, "a value (a string in quotes, a number, true, false, [ or {)");

        scan_skip(scan, n);
        return document_text(scan->document, word, ret, scan->err);
}

static int read_array(struct scan *scan, struct node *list) {
        int r;

        scan_skip(scan, 1);

        for (;;) {
                skip_lines(scan);
                if (scan_take(scan, "]"))
                        return 0;

                r = read_value(scan, list, STR(""), NULL);
                if (r < 0)
                        return r;

                skip_lines(scan);
                if (!scan_take(scan, ",") && scan_peek(scan, 0) != ']')
                        return scan_unexpected(scan, ", or ]");
        }
}

static int read_pair(struct scan *s, struct node *map);

static int read_inline_table(struct scan *scan, struct node *map) {
        int r;

        scan_skip(scan, 1);
        skip_blank(scan);
        if (scan_take(scan, "}"))
                return 0;

        for (;;) {
                skip_blank(scan);
                r = read_pair(scan, map);
                if (r < 0)
                        return r;

                skip_blank(scan);
                if (scan_take(scan, "}"))
                        return 0;
                if (!scan_take(scan, ","))
                        return scan_unexpected(scan, ", or }");
        }
}

static int read_value_into(struct scan *scan, struct node *node) {
        char c = scan_peek(scan, 0);

        if (node->kind == NODE_LIST)
                return read_array(scan, node);
        if (node->kind == NODE_MAP)
                return read_inline_table(scan, node);

        node->quoted = c == '"' || c == '\'';
        if (scan_take(scan, "\"\"\""))
                return read_long_string(scan, "\"\"\"", &node->text);
        if (scan_take(scan, "'''"))
                return read_long_string(scan, "'''", &node->text);

        if (node->quoted)
                return scan_string(scan, c, SCAN_TOML, &node->text);

        return read_word(scan, &node->text);
}

static int read_value(struct scan *scan, struct node *parent, struct str key, const struct dotted *from) {
        char c = scan_peek(scan, 0);
        enum node_kind kind = c == '[' ? NODE_LIST : NODE_SCALAR;
        uint32_t line = scan->line, column = scan->column;
        int r;

        if (c == '{')
                kind = NODE_MAP;

        scan->depth++;
        struct node *n = from ? add_child(scan, parent, key, kind, from) : scan_node(scan, parent, kind);
        if (!n)
                return -EINVAL;

        n->line = line;
        n->column = column;
        r = read_value_into(scan, n);
        scan->depth--;

        return r;
}

static int read_pair(struct scan *scan, struct node *map) {
        unsigned depth = scan->depth;
        struct node *table = map;
        struct dotted key = { 0 };
        int r;

        r = read_key(scan, &key);
        if (r < 0)
                return r;
        if (!scan_take(scan, "="))
                return scan_unexpected(scan, "=");

        skip_blank(scan);
        r = table_descend(scan, map, &key, key.n - 1, &table);
        if (r < 0)
                return r;

        const struct node *there = node_get(table, key.parts[key.n - 1]);
        if (there)
                return refuse_twice(scan, there, key.parts[key.n - 1]);

        r = read_value(scan, table, key.parts[key.n - 1], &key);
        scan->depth = depth;

        return r;
}

/* --- tables --- */

static int open_list(struct scan *scan, struct node *parent, const struct dotted *key, struct node **ret) {
        struct str last = key->parts[key->n - 1];
        struct node *list = (struct node *)(uintptr_t)node_get(parent, last);

        scan->depth++;

        if (!list)
                list = add_child(scan, parent, last, NODE_LIST, key);
        else if (list->kind != NODE_LIST || !list->quoted)
                return refuse_twice(scan, list, last);

        if (!list)
                return -EINVAL;

        list->quoted = true;
        scan->depth++;
        *ret = scan_node(scan, list, NODE_MAP);

        if (!*ret)
                return -EINVAL;

        return 0;
}

static int open_table(struct scan *scan, struct node *parent, const struct dotted *key, struct node **ret) {
        struct str last = key->parts[key->n - 1];
        struct node *map = (struct node *)(uintptr_t)node_get(parent, last);

        scan->depth++;
        if (map && (map->kind != NODE_MAP || map->quoted))
                return refuse_twice(scan, map, last);
        if (!map)
                map = add_child(scan, parent, last, NODE_MAP, key);
        if (!map)
                return -EINVAL;

        map->quoted = true;
        *ret = map;

        return 0;
}

static int read_header(struct scan *scan, struct node *root, struct node **ret) {
        bool is_list = scan_peek(scan, 1) == '[';
        const char *end = is_list ? "]]" : "]";
        struct node *parent = root;
        struct dotted key = { 0 };
        int r;

        scan_skip(scan, is_list ? 2 : 1);
        r = read_key(scan, &key);
        if (r < 0)
                return r;
        if (!scan_take(scan, end))
                return scan_unexpected(scan, end);

        scan->depth = 1;
        r = table_descend(scan, root, &key, key.n - 1, &parent);
        if (r < 0)
                return r;

        if (is_list)
                return open_list(scan, parent, &key, ret);

        return open_table(scan, parent, &key, ret);
}

static int read_document(struct scan *scan) {
        struct node *root = scan_node(scan, NULL, NODE_MAP), *table = root;
        int r;

        if (!root)
                return -EINVAL;

        scan->depth = 1;

        for (;;) {
                skip_lines(scan);
                if (scan_at_end(scan))
                        return 0;

                if (scan_peek(scan, 0) == '[')
                        r = read_header(scan, root, &table);
                else
                        r = read_pair(scan, table);
                if (r == 0)
                        r = end_line(scan);
                if (r < 0)
                        return r;
        }
}

int toml_read(struct str text, struct str name, struct document **ret, struct err *err) {
        struct err own = { 0 };
        struct scan s;
        int r;

        r = scan_open(&s, text, name, err ? err : &own);
        if (r == 0)
                r = read_document(&s);

        if (r < 0) {
                document_free(s.document);
                return r;
        }

        *ret = s.document;
        return 0;
}
