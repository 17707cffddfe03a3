/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/toml.h"

#include "base/cleanup.h"
#include "conf/scan.h"
#include "conf/suggest.h"

#include <errno.h>

/* While reading, `quoted` of a map or list says that its header was there: [x] once, and [[x]] only on its own lists.
 */

static void skip_blank(struct scan *s) {
        while (scan_peek(s, 0) == ' ' || scan_peek(s, 0) == '\t')
                scan_skip(s, 1);
}

/* Blanks, line ends and comments. */
static void skip_lines(struct scan *s) {
        for (;;) {
                char c = scan_peek(s, 0);

                if (c == '#')
                        while (!scan_at_end(s) && scan_peek(s, 0) != '\n')
                                scan_skip(s, 1);
                else if (c == ' ' || c == '\t' || c == '\n' || (c == '\r' && scan_peek(s, 1) == '\n'))
                        scan_skip(s, 1);
                else
                        return;
        }
}

/* After a statement there is nothing more on its line. */
static int end_line(struct scan *s) {
        skip_blank(s);
        if (scan_at_end(s) || scan_peek(s, 0) == '#' || scan_peek(s, 0) == '\n' ||
            (scan_peek(s, 0) == '\r' && scan_peek(s, 1) == '\n'))
                return 0;
        return scan_unexpected(s, "the end of the line");
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

static int read_key_part(struct scan *s, struct str *ret) {
        char c = scan_peek(s, 0);
        size_t n = 0;

        if (c == '"' || c == '\'')
                return scan_string(s, c, SCAN_TOML, ret);

        while (is_bare(scan_peek(s, n)))
                n++;

        if (n == 0)
                return scan_unexpected(s, "a key");

        *ret = str_n(s->text.p + s->at, n);
        scan_skip(s, n);

        return document_text(s->document, *ret, ret, s->err);
}

static int read_key(struct scan *s, struct dotted *ret) {
        *ret = (struct dotted){ .line = s->line, .column = s->column };

        do {
                int r;

                skip_blank(s);
                if (ret->n == TOML_KEY_PARTS_MAX)
                        return scan_error(s, "a key has more than %d parts", TOML_KEY_PARTS_MAX);

                r = read_key_part(s, &ret->parts[ret->n++]);
                if (r < 0)
                        return r;

                skip_blank(s);
        } while (scan_take(s, "."));

        return 0;
}

static void name_node(struct node *n, struct str key, const struct dotted *from) {
        n->key = key;
        n->key_line = n->line = from->line;
        n->key_column = n->column = from->column;
}

static struct node *add_child(struct scan *s, struct node *map, struct str key, enum node_kind kind,
                              const struct dotted *from) {
        struct node *n;

        if (map->n >= TOML_KEYS_MAX) {
                scan_error(s, "a table has more than %d keys", TOML_KEYS_MAX);
                return NULL;
        }

        n = scan_node(s, map, kind);
        if (n)
                name_node(n, key, from);

        return n;
}

static int refuse_twice(struct scan *s, const struct node *there, struct str key) {
        return scan_error(s, "%s is there twice: it is on line %u already", show(key).text, there->key_line);
}

/* The table that all parts but the last lead to. In an array of tables that is its last one. */
static int table_descend(struct scan *s, struct node *from, const struct dotted *key, size_t parts, struct node **ret) {
        struct node *at = from;

        for (size_t i = 0; i < parts; i++) {
                struct node *next = (struct node *)(uintptr_t)node_get(at, key->parts[i]);

                s->depth++;

                if (!next)
                        next = add_child(s, at, key->parts[i], NODE_MAP, key);
                else if (next->kind == NODE_LIST && next->quoted)
                        next = next->last;

                if (!next)
                        return -EINVAL;

                if (next->kind != NODE_MAP)
                        return scan_error(s, "%s has a value already and cannot be a table too",
                                          show(key->parts[i]).text);

                at = next;
        }

        *ret = at;
        return 0;
}

/* --- values --- */

static int read_value(struct scan *s, struct node *parent, struct str key, const struct dotted *from);

/* """...""" and '''...'''. The scan is behind the opening quotes. */
static int read_long_string(struct scan *s, const char *quotes, struct str *ret) {
        size_t start;

        if (!scan_take(s, "\n"))
                (void)scan_take(s, "\r\n");

        start = s->at;
        while (!scan_at_end(s) && !str_starts(str_skip(s->text, s->at), str_of(quotes)))
                scan_skip(s, scan_peek(s, 0) == '\\' && quotes[0] == '"' ? 2 : 1);

        if (scan_at_end(s))
                return scan_error(s, "the string of several lines has no end");

        /* Escapes stay as they are: none of these texts is used. */
        *ret = str_n(s->text.p + start, s->at - start);
        scan_skip(s, 3);

        return document_text(s->document, *ret, ret, s->err);
}

static int read_word(struct scan *s, struct str *ret) {
        struct str word;
        size_t n = 0;

        while (ascii_is_alnum(scan_peek(s, n)) || (scan_peek(s, n) && strchr("+-_.:", scan_peek(s, n))))
                n++;

        word = str_n(s->text.p + s->at, n);
        bool number = n > 0 && (ascii_is_digit(word.p[0]) || (n > 1 && (word.p[0] == '-' || word.p[0] == '+')));
        if (!number && !str_is(word, "true") && !str_is(word, "false") && !str_is(word, "inf") && !str_is(word, "nan"))
                return scan_unexpected(s, "a value (a string in quotes, a number, true, false, [ or {)");

        scan_skip(s, n);
        return document_text(s->document, word, ret, s->err);
}

static int read_array(struct scan *s, struct node *list) {
        int r;

        scan_skip(s, 1);

        for (;;) {
                skip_lines(s);
                if (scan_take(s, "]"))
                        return 0;

                r = read_value(s, list, STR(""), NULL);
                if (r < 0)
                        return r;

                skip_lines(s);
                if (!scan_take(s, ",") && scan_peek(s, 0) != ']')
                        return scan_unexpected(s, ", or ]");
        }
}

static int read_pair(struct scan *s, struct node *map);

static int read_inline_table(struct scan *s, struct node *map) {
        int r;

        scan_skip(s, 1);
        skip_blank(s);
        if (scan_take(s, "}"))
                return 0;

        for (;;) {
                skip_blank(s);
                r = read_pair(s, map);
                if (r < 0)
                        return r;

                skip_blank(s);
                if (scan_take(s, "}"))
                        return 0;
                if (!scan_take(s, ","))
                        return scan_unexpected(s, ", or }");
        }
}

static int read_value_into(struct scan *s, struct node *n) {
        char c = scan_peek(s, 0);

        if (n->kind == NODE_LIST)
                return read_array(s, n);
        if (n->kind == NODE_MAP)
                return read_inline_table(s, n);

        n->quoted = c == '"' || c == '\'';
        if (scan_take(s, "\"\"\""))
                return read_long_string(s, "\"\"\"", &n->text);
        if (scan_take(s, "'''"))
                return read_long_string(s, "'''", &n->text);

        return n->quoted ? scan_string(s, c, SCAN_TOML, &n->text) : read_word(s, &n->text);
}

static int read_value(struct scan *s, struct node *parent, struct str key, const struct dotted *from) {
        char c = scan_peek(s, 0);
        enum node_kind kind = c == '[' ? NODE_LIST : NODE_SCALAR;
        uint32_t line = s->line, column = s->column;
        int r;

        if (c == '{')
                kind = NODE_MAP;

        s->depth++;
        struct node *n = from ? add_child(s, parent, key, kind, from) : scan_node(s, parent, kind);
        if (!n)
                return -EINVAL;

        n->line = line;
        n->column = column;
        r = read_value_into(s, n);
        s->depth--;

        return r;
}

static int read_pair(struct scan *s, struct node *map) {
        unsigned depth = s->depth;
        struct node *table = map;
        struct dotted key = { 0 };
        int r;

        r = read_key(s, &key);
        if (r < 0)
                return r;
        if (!scan_take(s, "="))
                return scan_unexpected(s, "=");

        skip_blank(s);
        r = table_descend(s, map, &key, key.n - 1, &table);
        if (r < 0)
                return r;

        const struct node *there = node_get(table, key.parts[key.n - 1]);
        if (there)
                return refuse_twice(s, there, key.parts[key.n - 1]);

        r = read_value(s, table, key.parts[key.n - 1], &key);
        s->depth = depth;

        return r;
}

/* --- tables --- */

static int open_list(struct scan *s, struct node *parent, const struct dotted *key, struct node **ret) {
        struct str last = key->parts[key->n - 1];
        struct node *list = (struct node *)(uintptr_t)node_get(parent, last);

        s->depth++;

        if (!list)
                list = add_child(s, parent, last, NODE_LIST, key);
        else if (list->kind != NODE_LIST || !list->quoted)
                return refuse_twice(s, list, last);

        if (!list)
                return -EINVAL;

        list->quoted = true;
        s->depth++;
        *ret = scan_node(s, list, NODE_MAP);

        return *ret ? 0 : -EINVAL;
}

static int open_table(struct scan *s, struct node *parent, const struct dotted *key, struct node **ret) {
        struct str last = key->parts[key->n - 1];
        struct node *map = (struct node *)(uintptr_t)node_get(parent, last);

        s->depth++;
        if (map && (map->kind != NODE_MAP || map->quoted))
                return refuse_twice(s, map, last);
        if (!map)
                map = add_child(s, parent, last, NODE_MAP, key);
        if (!map)
                return -EINVAL;

        map->quoted = true;
        *ret = map;

        return 0;
}

static int read_header(struct scan *s, struct node *root, struct node **ret) {
        bool is_list = scan_peek(s, 1) == '[';
        const char *end = is_list ? "]]" : "]";
        struct node *parent = root;
        struct dotted key = { 0 };
        int r;

        scan_skip(s, is_list ? 2 : 1);
        r = read_key(s, &key);
        if (r < 0)
                return r;
        if (!scan_take(s, end))
                return scan_unexpected(s, end);

        s->depth = 1;
        r = table_descend(s, root, &key, key.n - 1, &parent);
        if (r < 0)
                return r;

        return is_list ? open_list(s, parent, &key, ret) : open_table(s, parent, &key, ret);
}

static int read_document(struct scan *s) {
        struct node *root = scan_node(s, NULL, NODE_MAP), *table = root;
        int r;

        if (!root)
                return -EINVAL;

        s->depth = 1;

        for (;;) {
                skip_lines(s);
                if (scan_at_end(s))
                        return 0;

                r = scan_peek(s, 0) == '[' ? read_header(s, root, &table) : read_pair(s, table);
                if (r == 0)
                        r = end_line(s);
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
