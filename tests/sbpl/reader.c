/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "sbpl_internal.h"

#include <errno.h>
#include <stdio.h>

enum { STRING_MAX_BYTES = 1025, DEPTH_MAX = 64 };

struct reader {
        struct sbpl *s;
        struct str rest;
        int line, depth;
        struct err *e;
};

static int read_error(struct reader *r, const char *what) {
        return err_set(r->e, EINVAL, "line %d: %s", r->line, what);
}

static struct node *node_new(struct reader *r, enum node_kind kind) {
        struct node *node = calloc(1, sizeof *node);

        if (node) {
                node->kind = kind;
                node->line = r->line;
        }
        if (node && vec_push(&r->s->nodes, node) == 0)
                return node;
        free(node);
        return NULL;
}

static void skip_space(struct reader *r) {
        while (r->rest.n > 0) {
                char c = r->rest.p[0];

                if (c == ';') {
                        while (r->rest.n > 0 && r->rest.p[0] != '\n')
                                r->rest = str_skip(r->rest, 1);
                        continue;
                }
                if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
                        return;
                r->line += c == '\n';
                r->rest = str_skip(r->rest, 1);
        }
}

static int node_add_char(struct node *node, char c) {
        char *grown = realloc(node->text, node->n_text + 2);

        if (!grown)
                return -ENOMEM;
        node->text = grown;
        node->text[node->n_text++] = c;
        node->text[node->n_text] = '\0';
        return 0;
}

/* Behind the first quote. In a regular expression a backslash belongs to the expression. */
static int read_string(struct reader *r, struct node *node) {
        bool raw = node->kind == NODE_REGEX;

        node->text = calloc(1, 1);
        while (r->rest.n > 0 && r->rest.p[0] != '"') {
                char c = r->rest.p[0];

                r->line += c == '\n';
                if (c == '\\' && !raw && r->rest.n > 1) {
                        r->rest = str_skip(r->rest, 1);
                        c = r->rest.p[0];
                        if (c != '"' && c != '\\')
                                return read_error(r, "an escape that profiles are not known to have");
                }
                if (node_add_char(node, c) < 0)
                        return -ENOMEM;
                r->rest = str_skip(r->rest, 1);
        }
        if (r->rest.n == 0)
                return read_error(r, "a string without its end");
        if (node->n_text > STRING_MAX_BYTES)
                return read_error(r, "Error reading string: more than 1025 bytes");
        r->rest = str_skip(r->rest, 1);
        return 0;
}

static int compile_regex(struct reader *r, struct node *node) {
        node->compiled = calloc(1, sizeof *node->compiled);
        if (!node->compiled)
                return -ENOMEM;
        if (regcomp(node->compiled, node->text, REG_EXTENDED | REG_NOSUB) == 0)
                return 0;
        free(node->compiled);
        node->compiled = NULL;
        return read_error(r, "not a regular expression");
}

static int read_node(struct reader *r, struct node **ret);

static int read_list(struct reader *r, struct node *list) {
        if (++r->depth > DEPTH_MAX)
                return read_error(r, "nested too deep");
        for (;;) {
                struct node *item = NULL;

                skip_space(r);
                if (r->rest.n == 0)
                        return read_error(r, "a list without its end");
                if (r->rest.p[0] == ')') {
                        r->rest = str_skip(r->rest, 1);
                        r->depth--;
                        return 0;
                }
                int status = read_node(r, &item);
                if (status == 0)
                        status = vec_push(&list->items, item);
                if (status < 0)
                        return status;
        }
}

static int read_word(struct reader *r, struct node *node) {
        size_t n = 0;

        while (n < r->rest.n && !strchr(" \t\r\n();\"", r->rest.p[n]))
                n++;
        if (n == 0)
                return read_error(r, "a character that begins nothing");
        node->text = str_dup(str_first(r->rest, n));
        node->n_text = n;
        r->rest = str_skip(r->rest, n);
        return node->text ? 0 : -ENOMEM;
}

static int read_node(struct reader *r, struct node **ret) {
        char c = r->rest.p[0];
        bool regex = c == '#' && r->rest.n > 1 && r->rest.p[1] == '"';
        enum node_kind kind = NODE_WORD;

        if (c == '(')
                kind = NODE_LIST;
        else if (regex)
                kind = NODE_REGEX;
        else if (c == '"')
                kind = NODE_STRING;

        struct node *node = node_new(r, kind);
        if (!node)
                return -ENOMEM;
        if (kind != NODE_WORD)
                r->rest = str_skip(r->rest, regex ? 2 : 1);
        *ret = node;
        if (kind == NODE_LIST)
                return read_list(r, node);
        if (kind == NODE_WORD)
                return read_word(r, node);
        int status = read_string(r, node);
        return status == 0 && regex ? compile_regex(r, node) : status;
}

int sbpl_read(struct sbpl *s, struct str text, struct err *e) {
        struct reader r = { .s = s, .rest = text, .line = 1, .e = e };

        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] >= 0x80 || text.p[i] == '\0')
                        return err_set(e, EINVAL, "a profile is ASCII; byte %zu is not", i);
        for (;;) {
                struct node *node = NULL;

                skip_space(&r);
                if (r.rest.n == 0)
                        return 0;
                int status = read_node(&r, &node);
                if (status == 0)
                        status = vec_push(&s->forms, node);
                if (status < 0)
                        return status;
        }
}

void sbpl_free(struct sbpl *s) {
        if (!s)
                return;
        for (size_t i = 0; i < s->nodes.n; i++) {
                struct node *node = s->nodes.p[i];

                if (node->compiled)
                        regfree(node->compiled);
                free(node->compiled);
                free(node->text);
                vec_done(&node->items);
                free(node);
        }
        for (size_t i = 0; i < s->rules.n; i++)
                vec_done(&s->rules.p[i].filters);
        vec_done(&s->nodes);
        vec_done(&s->forms);
        vec_done(&s->definitions);
        vec_done(&s->rules);
        free(s);
}

void sbpl_freep(struct sbpl **s) {
        sbpl_free(*s);
}
