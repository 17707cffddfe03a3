/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A configuration file as a tree, with the place of every value, so that an error points at what a person wrote. YAML
 * and JSON are read into it (conf/yaml.h, conf/json.h); nothing of those libraries is visible beyond.
 *
 * A document owns its nodes and their text in one arena; nodes live as long as it does.
 */
#include "base/err.h"
#include "base/str.h"

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_LIST, NODE_MAP, NODE_KINDS };

/* Limits for every file: more is not a configuration but an attack or a mistake. Long lists belong in a plain list
 * file. */
enum { NODE_DEPTH_MAX = 32, NODE_COUNT_MAX = 262144, DOCUMENT_BYTES_MAX = 4 << 20 };

struct node {
        enum node_kind kind;
        bool quoted;           /* a scalar in quotes: text, whatever it looks like */
        uint32_t line, column; /* from 1; 0 where the format does not say (JSON) */
        uint32_t key_line, key_column;
        struct str key;                   /* of a member of a map */
        struct str text;                  /* of a scalar; terminated, but may hold any character */
        struct node *first, *last, *next; /* children; next sibling */
        size_t n;                         /* children */
};

struct document;

/* `name` is shown in messages and origins; it is escaped here. */
int document_new(struct str name, struct document **ret, struct err *err);
void document_free(struct document *document);
void document_freep(struct document **document);
const char *document_name(const struct document *document);
/* NULL for an empty document. */
const struct node *document_root(const struct document *document);

const char *node_kind_name(enum node_kind kind); /* "a list", "a mapping", ... */
/* The member of a map, or NULL. */
const struct node *node_get(const struct node *map, struct str key);
/* "name:line:column", or "name" without a place. Heap text, NULL when out of memory. */
char *node_origin(const struct document *document, const struct node *node);
/* err_set with the node's place, or its key's, in front. */
int node_error(const struct document *document, const struct node *node, struct err *err, const char *format, ...)
    ERR_PRINTF(4, 5);
int node_key_error(const struct document *document, const struct node *node, struct err *err, const char *format, ...)
    ERR_PRINTF(4, 5);

/* For readers: a node under parent (NULL: the root), counted against the limits; NULL with e set when over one. */
struct node *document_add(struct document *document, struct node *parent, enum node_kind kind, struct err *err);
/* A terminated copy in the document's memory. */
int document_text(struct document *document, struct str s, struct str *ret, struct err *err);
/* Refuses a map that has a key twice. */
int document_check_keys(const struct document *document, const struct node *map, struct err *err);
