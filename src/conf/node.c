/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/node.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/map.h"
#include "conf/suggest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Memory: blocks that are only ever added to, freed together. A typical policy fits into the first one.
 */
enum { BLOCK_BYTES = 16384, ALIGNMENT = 16, NAME_SHOWN_MAX = 200 };

struct block {
        struct block *next;
        size_t used, size;
        char bytes[] __attribute__((aligned(ALIGNMENT)));
};

struct document {
        struct block *blocks;
        struct node *root;
        char *name;
        size_t nodes;
};

static void *allocate(struct document *d, size_t n) {
        n = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!d->blocks || d->blocks->size - d->blocks->used < n) {
                size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
                struct block *b = malloc(sizeof *b + size);
                if (!b)
                        return NULL;
                b->next = d->blocks;
                b->used = 0;
                b->size = size;
                d->blocks = b;
        }
        void *p = d->blocks->bytes + d->blocks->used;
        d->blocks->used += n;
        return p;
}

int document_new(struct str name, struct document **ret, struct err *e) {
        cleanup(buf_done) struct buf shown = BUF(NAME_SHOWN_MAX * 8);
        cleanup(document_freep) struct document *d = calloc(1, sizeof *d);
        if (!d || escape_text(&shown, name, NAME_SHOWN_MAX) < 0 || !(d->name = str_dup(buf_str(&shown))))
                return err_set(e, ENOMEM, "out of memory");
        *ret = take_ptr(&d);
        return 0;
}

void document_free(struct document *d) {
        if (!d)
                return;
        for (struct block *b = d->blocks, *next; b; b = next) {
                next = b->next;
                free(b);
        }
        free(d->name);
        free(d);
}

void document_freep(struct document **d) {
        document_free(*d);
}

const char *document_name(const struct document *d) {
        return d->name;
}

const struct node *document_root(const struct document *d) {
        return d->root;
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
        for (const struct node *n = map->first; n; n = n->next)
                if (str_eq(n->key, key))
                        return n;
        return NULL;
}

static void place_text(const struct document *d, uint32_t line, uint32_t column, char *ret, size_t n) {
        if (line)
                snprintf(ret, n, "%s:%u:%u", d->name, line, column);
        else
                snprintf(ret, n, "%s", d->name);
}

char *node_origin(const struct document *d, const struct node *n) {
        return n->line ? str_format("%s:%u:%u", d->name, n->line, n->column) : str_dup(str_of(d->name));
}

__attribute__((format(printf, 4, 0))) static int error_at(const struct document *d, uint32_t line, uint32_t column,
                                                          const char *format, va_list args, struct err *e) {
        char place[ERR_TEXT_MAX / 2], text[ERR_TEXT_MAX];
        place_text(d, line, column, place, sizeof place);
        vsnprintf(text, sizeof text, format, args);
        return err_set(e, EINVAL, "%s: %s", place, text);
}

int node_error(const struct document *d, const struct node *n, struct err *e, const char *format, ...) {
        va_list args;
        va_start(args, format);
        int r = error_at(d, n->line, n->column, format, args, e);
        va_end(args);
        return r;
}

int node_key_error(const struct document *d, const struct node *n, struct err *e, const char *format, ...) {
        bool keyed = n->key_line != 0;
        va_list args;
        va_start(args, format);
        int r = error_at(d, keyed ? n->key_line : n->line, keyed ? n->key_column : n->column, format, args, e);
        va_end(args);
        return r;
}

struct node *document_add(struct document *d, struct node *parent, enum node_kind kind, struct err *e) {
        if (d->nodes >= NODE_COUNT_MAX) {
                err_set(e, EINVAL,
                        "%s: more than %d values; put long lists of hosts into a file of their own "
                        "(network.allow_file, network.deny_file)",
                        d->name, NODE_COUNT_MAX);
                return NULL;
        }
        struct node *n = allocate(d, sizeof *n);
        if (!n) {
                err_set(e, ENOMEM, "out of memory");
                return NULL;
        }
        d->nodes++;
        *n = (struct node){ .kind = kind };
        if (!parent) {
                d->root = n;
                return n;
        }
        if (parent->last)
                parent->last->next = n;
        else
                parent->first = n;
        parent->last = n;
        parent->n++;
        return n;
}

int document_text(struct document *d, struct str s, struct str *ret, struct err *e) {
        char *copy = allocate(d, s.n + 1);
        if (!copy)
                return err_set(e, ENOMEM, "out of memory");
        if (s.n)
                memcpy(copy, s.p, s.n);
        copy[s.n] = '\0';
        *ret = str_n(copy, s.n);
        return 0;
}

static int refuse_twice(const struct document *d, const struct node *again, const struct node *first, struct err *e) {
        if (!first->key_line)
                return node_key_error(d, again, e, "key %s is there twice", show(again->key).text);
        return node_key_error(d, again, e, "key %s is there twice: it is on line %u already", show(again->key).text,
                              first->key_line);
}

static void map_forget(struct map *m) {
        map_done(m, NULL);
}

int document_check_keys(const struct document *d, const struct node *map, struct err *e) {
        enum { FEW = 24 }; /* below, comparing all pairs is cheaper than a table */
        cleanup(map_forget) struct map seen = { 0 };
        for (struct node *n = map->first; n; n = n->next) {
                const struct node *first = map->n <= FEW ? node_get(map, n->key) : map_get(&seen, n->key);
                if (first && first != n)
                        return refuse_twice(d, n, first, e);
                if (map->n > FEW && map_add(&seen, n->key, n) < 0)
                        return err_set(e, ENOMEM, "out of memory");
        }
        return 0;
}
