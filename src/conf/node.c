/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/node.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/map.h"
#include "conf/suggest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_SHOWN_MAX = 200 };

struct document {
        struct arena memory; /* of every node and text; a typical policy fits into its first block */
        struct node *root;
        char *name;
        size_t nodes;
};

int document_new(struct str name, struct document **ret, struct err *err) {
        cleanup(buf_done) struct buf shown = BUF(NAME_SHOWN_MAX * 8);
        cleanup(document_freep) struct document *d = calloc(1, sizeof *d);
        if (!d || escape_text(&shown, name, NAME_SHOWN_MAX) < 0 || !(d->name = str_dup(buf_str(&shown))))
                return err_memory(err);
        d->memory = ARENA_UNLIMITED;
        *ret = take_ptr(&d);
        return 0;
}

void document_free(struct document *document) {
        if (!document)
                return;

        arena_done(&document->memory);
        free(document->name);
        free(document);
}

void document_freep(struct document **document) {
        document_free(*document);
}

const char *document_name(const struct document *document) {
        return document->name;
}

const struct node *document_root(const struct document *document) {
        return document->root;
}

const char *node_kind_name(enum node_kind kind) {
        static const char *const names[] = { [NODE_NULL] = "nothing",
                                             [NODE_SCALAR] = "a single value",
                                             [NODE_LIST] = "a list",
                                             [NODE_MAP] = "a mapping" };
        static_assert(sizeof names / sizeof names[0] == NODE_KINDS, "every kind has a name");
        return names[kind];
}

const struct node *node_get(const struct node *map, struct str key) {
        for (const struct node *node = map->first; node; node = node->next)
                if (str_eq(node->key, key))
                        return node;
        return NULL;
}

static void place_text(const struct document *document, uint32_t line, uint32_t column, char *ret, size_t n) {
        if (line)
                snprintf(ret, n, "%s:%u:%u", document->name, line, column);
        else
                snprintf(ret, n, "%s", document->name);
}

char *node_origin(const struct document *document, const struct node *node) {
        if (node->line)
                return str_format("%s:%u:%u", document->name, node->line, node->column);

        return str_dup(str_of(document->name));
}

__attribute__((format(printf, 4, 0))) static int error_at(const struct document *document, uint32_t line,
                                                          uint32_t column, const char *format, va_list args,
                                                          struct err *err) {
        char place[ERR_TEXT_MAX / 2], text[ERR_TEXT_MAX];
        place_text(document, line, column, place, sizeof place);
        vsnprintf(text, sizeof text, format, args);
        return err_set(err, EINVAL, "%s: %s", place, text);
}

int node_error(const struct document *document, const struct node *node, struct err *err, const char *format, ...) {
        va_list args;
        va_start(args, format);
        int r = error_at(document, node->line, node->column, format, args, err);
        va_end(args);
        return r;
}

int node_key_error(const struct document *document, const struct node *node, struct err *err, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        if (node->key_line != 0)
                r = error_at(document, node->key_line, node->key_column, format, args, err);
        else
                r = error_at(document, node->line, node->column, format, args, err);
        va_end(args);

        return r;
}

struct node *document_add(struct document *document, struct node *parent, enum node_kind kind, struct err *err) {
        if (document->nodes >= NODE_COUNT_MAX) {
                err_set(err, EINVAL,
                        "%s: more than %d values; put long lists of hosts into a file of their own "
                        "(network.allow_file, network.deny_file)",
                        document->name, NODE_COUNT_MAX);
                return NULL;
        }

        struct node *node = arena_get(&document->memory, sizeof *node);
        if (!node) {
                err_memory(err);
                return NULL;
        }

        document->nodes++;
        *node = (struct node){ .kind = kind };

        if (!parent) {
                document->root = node;
                return node;
        }

        if (parent->last)
                parent->last->next = node;
        else
                parent->first = node;

        parent->last = node;
        parent->n++;

        return node;
}

int document_text(struct document *document, struct str s, struct str *ret, struct err *err) {
        char *copy = arena_text(&document->memory, s.n + 1);
        if (!copy)
                return err_memory(err);
        if (s.n)
                memcpy(copy, s.p, s.n);

        copy[s.n] = '\0';
        *ret = str_n(copy, s.n);

        return 0;
}

static int refuse_twice(const struct document *document, const struct node *again, const struct node *first,
                        struct err *err) {
        if (!first->key_line)
                return node_key_error(document, again, err, "key %s is there twice", show(again->key).text);
        return node_key_error(document, again, err, "key %s is there twice: it is on line %u already",
                              show(again->key).text, first->key_line);
}

static void map_forget(struct map *map) {
        map_done(map, NULL);
}

int document_check_keys(const struct document *document, const struct node *map, struct err *err) {
        enum { FEW = 24 }; /* below, comparing all pairs is cheaper than a table */
        cleanup(map_forget) struct map seen = { 0 };

        for (struct node *node = map->first; node; node = node->next) {
                const struct node *first = map->n <= FEW ? node_get(map, node->key) : map_get(&seen, node->key);
                if (first && first != node)
                        return refuse_twice(document, node, first, err);
                if (map->n > FEW && map_add(&seen, node->key, node) < 0)
                        return err_memory(err);
        }

        return 0;
}
